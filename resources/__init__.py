"""The world: the only code that touches services, disks, devices and clocks."""
