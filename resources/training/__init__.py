"""The trainer: TRL's GRPO on our rewards, with a rollout log, checkpoints and health rules."""
