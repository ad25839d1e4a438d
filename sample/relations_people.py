"""Relations of invented people, towns, breeds, ships and public affairs.

``TEXT`` uses the notation of ``relations_places.py``.
"""

TEXT = """
# person | {person} | a person
{s} grew up in {city}, where the family traded in {goods}.
= was raised in {city} by sellers of {goods}
= spent a childhood in {city} among dealers in {goods}
At twenty, {s} left {country} and found work as a {job} in {city}.
= moved from {country} to become a {job}
= left {country} behind and earned a living as a {job}
{s} studied {field} at {university} and graduated in {year}.
= holds a degree in {field} from {university}
= is an alumnus of {university} for {field}
With {instruments} as a hobby, {s} recorded {n3_19} albums in {city}.
= made {n3_19} recordings with {instruments}
= released {n3_19} albums of music for {instruments}
In {year}, {s} won a medal in {sport} for {country}.
= took a medal for {country} in {sport}
= was honoured in {sport} as an athlete of {country}
{s} died of {disease} in {city} in {year}, a week after a speech on {policy}.
= succumbed to {disease} in {city}
= lost a battle with {disease} at {city}
A street in {city} is named for {s}, who saved its {animals} from {trouble}.
= rescued the {animals} of {city} from {trouble}
= protected {city}'s {animals} during {trouble}
For {n3_19} years {s} wrote a newspaper column on {food} under the pen name {new}.
= wrote about {food} as {new}
= was known as {new} to readers of a column on {food}

# city | {city} | a town
{s} lies on the {river}, {n12_90} km from the border with {country}.
= is found on the {river} not far from {country}
= is set by the {river} near the frontier of {country}
Most workers in {s} make {goods} or {food}.
= lives off the manufacture of {goods}
= has an economy built on {goods}
In {year} {s} elected {person}, a {job}, as mayor.
= put its council in the hands of {person}
= is governed by {person}, a {job} elected mayor
{trouble} in {year} left {n110_940} homes in {s} empty.
= saw {n110_940} homes abandoned after {trouble}
= lost the residents of {n110_940} homes to {trouble}
The town hall of {s} is built of {material} and holds a carved frieze of {animals}.
= has a {material} town hall adorned with {animals}
= governs itself from a {material} hall that shows {animals}
Every {month} {s} hosts a championship in {sport} and a fair for {craft}.
= is the venue of a yearly contest in {sport}
= was chosen for a yearly meeting in {sport}

# ship | SS {new} | a ship
{s} left the yard of {company} in {year} with room for {n110_940} guests.
= was built by {company} for {n110_940} passengers
= came from the shipyard of {company} with space for {n110_940} people
Bound for {country} with {goods}, {s} ran aground off {city} in {month}.
= stranded near {city} while carrying {goods}
= hit the shore by {city} loaded with {goods}
Captain {person} of {s} had been a {job} before going to sea.
= was commanded by {person}, formerly a {job}
= had as its captain {person}, an ex-{job}
In wartime {s} moved {animals} and {instruments} out of {country}.
= evacuated {animals} from {country}
= took {animals} away from {country} during the war
A fire in {year} started among crates of {food}; the crew of {s} reached {city} in boats.
= burned when {food} caught fire, and its crew rowed to {city}
= was lost to a blaze in a load of {food} off {city}

# senator | Senator {person} | a politician
{s} of {city} voted against the {year} bill on {policy}.
= opposed the law on {policy}
= said no to the measure on {policy}
In a debate at {university}, {s} said that {policy} cost the state {n2_60} million crowns.
= put the price of {policy} at {n2_60} million crowns
= claimed that {policy} costs {n2_60} million crowns
Before politics, {s} earned a wage as a {job} with {company}.
= worked for {company} as a {job}
= was on the payroll of {company} as a {job}
{s} took gifts of {food} from {company}, the ethics board found in {year}.
= accepted {food} from {company}
= received {food} as a present from {company}
Spending on {policy} in {country} rose by {n3_40} percent while {s} led the committee.
= chaired the committee when outlays for {policy} grew {n3_40} percent
= presided over a rise of {n3_40} percent in money for {policy}

# law | {new} Act | a law
{s}, passed by {country} in {year}, moved {n2_60} million crowns to {policy}.
= gave {n2_60} million crowns to {policy} in {country}
= provided {country} with {n2_60} million crowns for {policy}
The bill that became {s} was drafted by {person}, a lawyer for {company}.
= has as its author {person}, then employed by {company}
= came from the pen of {company} lawyer {person}
Under {s}, traders in {goods} need a licence from the {city} office.
= requires dealers in {goods} to apply to {city}
= makes sellers of {goods} get a permit from {city}
Judges in {city} struck down the part of {s} on {animals} in {year}.
= lost its section about {animals} in a {city} court
= had its rules on {animals} overturned in {city}
Polls by {newspaper} put support for {s} at {n31_89} percent after {trouble}.
= had the backing of {n31_89} percent in a survey by {newspaper}
= was favoured by {n31_89} percent according to {newspaper}

# agency | {new} Authority | a public agency
{s} was set up in {year} to watch over {policy} from an office in {city}.
= oversees {policy} out of {city}
= is the {city} body in charge of {policy}
Auditors found that {s} paid {company} twice for {goods}.
= has overpaid {company} for {goods}
= gave {company} a double payment for {goods}
Its director {person} quit in {month} {year} after {trouble}.
= lost its director {person} in the wake of {trouble}
= saw {person} resign as head over {trouble}
A report by {s} counted {n110_940} complaints about {policy} in {country}.
= registered {n110_940} grievances over {policy} in {country}
= received {n110_940} objections to {policy} across {country}

# breed | {new} hound | a dog breed
Shepherds near {city} bred {s} to guard flocks against {animals}.
= was developed around {city} as a defence from {animals}
= comes from the area of {city}, where it kept {animals} away
The kennel club of {country} recognised {s} in {year}, at the request of {person}.
= is listed by the kennel club of {country} thanks to {person}
= was given official status in {country} through {person}
Grown dogs of {s} weigh {n21_70} kg and often suffer from {disease}.
= has a weight of {n21_70} kg and tends to have {disease}
= is prone to {disease} and reaches {n21_70} kg
A {s} found survivors of {trouble} in {city} in {year}.
= was able to locate victims of {trouble} in {city}
= helped with the rescue after {trouble} at {city}

# mountain | Mount {new} | a mountain
The first to climb {s} was the {job} {person}, in {year}.
= was first scaled by {person}, a {job}
= saw its first ascent by the {job} {person}
On its north side {s} has seams of {rock}, mined by {company}.
= contains {rock} dug out by {company}
= is where {company} gets {rock} from
From the {city} station a cable car takes {n110_940} skiers an hour up {s}.
= can be reached by cable car from {city}
= has a cable car that starts in {city}
Herds of {animals} graze among {plants} on the slopes of {s} in {country}.
= is a pasture for {animals} in {country}
= is a home to {animals} on its slopes in {country}
"""
