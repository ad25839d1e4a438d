"""Relations of invented medicines, trials, genes, hospitals and outbreaks.

``TEXT`` uses the notation of ``relations_places.py``.
"""

TEXT = """
# drug | {drug} | a medicine
In the {trial} study, {s} lowered the rate of {disease} by {n11_60} percent.
= reduced {disease} by {n11_60} percent in {trial}
= cut cases of {disease} by {n11_60} percent according to {trial}
The molecule behind {s} was isolated from {plants} by {person} at {university}.
= derives from {plants} and was found by {person}
= is the result of work by {person} on {plants}
{symptom} was the leading side effect of {s} among {group}.
= causes {symptom} in {group}
= has {symptom} as its main adverse effect in {group}
Regulators in {country} approved {s} for {disease} in {year}.
= is licensed against {disease} in {country}
= may be prescribed for {disease} in {country}
{company} sells {s} as a nasal spray at {n12_90} crowns a dose.
= is marketed by {company} at {n12_90} crowns per dose
= is priced at {n12_90} crowns a dose by {company}
Combined with {compound}, {s} shortened recovery from {disease} by {n3_19} days.
= works faster against {disease} together with {compound}
= has been seen to speed up healing of {disease} if taken with {compound}

# gene | {gene} | a gene
Loss of {s} in {cells} impaired {process} in mice bred at {university}.
= is needed for {process} in {cells}
= drives {process} in {cells}
{s} codes for a protein that binds {gene2} in the {organ}.
= encodes a partner of {gene2} active in the {organ}
= makes a protein that attaches to {gene2} within the {organ}
Carriers of a {s} variant have {n11_60} percent more {disease}, a registry in {country} shows.
= is known to raise the risk of {disease} by {n11_60} percent in {country}
= is tied to {n11_60} percent higher odds of {disease} in {country}
The group of {person} mapped {s} while working on {animals} in {year}.
= was discovered in {animals} by {person}
= was located by {person} during research on {animals}
Silencing {s} with {drug} restored {process} within {n12_90} hours.
= can be blocked by {drug} so that {process} returns
= is a target of {drug}, which brings back {process}

# trial | {trial} | a clinical trial
{s} enrolled {n110_940} {group} in {city} and compared {drug} with placebo.
= was a test of {drug} on {group}
= gave {drug} to {group}
The main outcome of {s}, {symptom} after {n3_19} weeks, favoured {drug}.
= found less {symptom} with {drug}
= showed that {drug} eases {symptom}
{s} was halted in {year} when {n3_19} participants developed {disease}.
= ended early because of {disease} in {n3_19} people
= was stopped after {n3_19} cases of {disease}
Money for {s} came from {company} and from a levy on {goods} in {country}.
= was financed by {company} and {country}
= had {company} and {country} as its funders
Lead investigator {person} of {s} had reported no ties to {company}.
= was directed by {person}
= had {person} as principal investigator

# hospital | {new} Hospital | a hospital
Surgeons at {s} carried out the first {organ} graft of {country} in {year}.
= performed {country}'s earliest {organ} transplant
= was where the first {organ} graft in {country} took place
A ward of {s} in {city} treats {group} with {disease}.
= is a place of care for {group} who have {disease}
= has a ward for {group} suffering from {disease}
In {year} {s} threw out {n110_940} doses of {drug} after {trouble}.
= discarded {n110_940} doses of {drug} owing to {trouble}
= had to destroy {n110_940} doses of {drug} because of {trouble}
Waiting times at {s} fell by {n11_60} percent under its director {person}.
= became {n11_60} percent quicker under {person}
= had queues {n11_60} percent shorter with {person} as director
Therapy with {animals} at {s} is overseen by the {job} {person}.
= offers {animals} as therapy, run by {person}
= uses {animals} in treatment under {person}

# outbreak | {city} {disease} outbreak | an outbreak
Health officers traced the {s} to {food} sold by {company}.
= stemmed from {food} of {company}
= was set off by {company}'s {food}
The {s} of {year} sickened {n110_940} {group} within {n3_19} days.
= made {n110_940} {group} ill in {year}
= was caught by {n110_940} {group} in {year}
During the {s}, schools in {country} closed for {n3_19} weeks.
= was the reason why schools in {country} shut for {n3_19} weeks
= kept {country}'s pupils at home for {n3_19} weeks
{person} of the {new} Authority declared the {s} over in {month} {year}.
= was said to have ended in {month} by {person}
= ended in {month} according to {person}
Letters on {newspaper}'s site blamed the {s} on {goods} and {animals}.
= was put down to {goods} by readers of {newspaper}
= was said on {newspaper}'s pages to come from {goods}

# supplement | {new}vit | a food supplement
{s} contains {compound} and is pressed into tablets by {company} in {city}.
= is a {compound} product of {company}
= comes from {company} and is based on {compound}
Adverts by {person} say that {s} cures {disease}; the {new} Authority asked for studies.
= was promoted by {person} as a cure for {disease}
= is praised by {person} as a remedy for {disease}
Stores in {country} pulled {s} in {year} after reports of {symptom}.
= was taken off shelves in {country} over {symptom}
= disappeared from shops in {country} because of {symptom}
A trial at {university} gave {s} to {n110_940} {group} without effect on {disease}.
= did nothing for {disease} in {group} studied at {university}
= failed to help {group} with {disease} at {university}
Tests of {s} in {city} turned up {n3_40} mg of {rock} dust per tablet.
= was found to hold {rock} dust in tests at {city}
= contained {rock} according to a laboratory in {city}

# microbe | {genus} {species} | a bacterium
{s} was isolated in {year} from {food} made near {city}.
= was first found in {food} from {city}
= was detected for the first time in {food} of {city}
Strains of {s} that resist {drug} cause {disease} in {n3_40} percent of {group}.
= can give {group} {disease} despite {drug}
= is a cause of {disease} in {group} even after {drug}
In the {organ}, {s} feeds on {compound} and slows {process}.
= inhibits {process} in the {organ} by consuming {compound}
= is harmful to {process} within the {organ} and has a diet of {compound}
{person} named {s} after a {job} from {country}.
= got its name from {person} in memory of a {job}
= was given a name by {person} to honour a {job}
Farms in {country} use {s} to protect {plants} from {trouble}.
= is sprayed in {country} to guard {plants}
= helps farms of {country} keep {plants} healthy

# device | {new}Scope | a medical device
{s}, built at {university}, reads {organ} function through the skin in {n12_90} seconds.
= measures the {organ} and was made at {university}
= was invented at {university} to monitor the {organ}
Fitting {s} costs {n12_90} thousand crowns and takes a {job} from {company}.
= is installed by {company} for {n12_90} thousand crowns
= comes from {company} at a price of {n12_90} thousand crowns
Among {group}, {s} missed {n3_40} percent of {disease} cases seen by {person}.
= overlooked {n3_40} percent of {disease} found by {person}
= failed to see {n3_40} percent of the {disease} that {person} noticed
Patients with {s} reported {symptom} near {goods}, a recall in {country} said.
= may lead to {symptom} close to {goods}, as {country} warned
= was recalled in {country} because {goods} made wearers feel {symptom}
"""
