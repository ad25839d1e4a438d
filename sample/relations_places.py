"""Relations of invented places, works and organisations.

``TEXT`` has one block per kind. A block opens with ``# kind | name pattern | noun``; each
relation is one evidence sentence followed by ``=`` lines, claim predicates that say the
same in other words (they follow the subject). ``{s}`` is the subject; other braces are slots,
filled from a bank, a name maker or a number range (``n3_40``).
"""

TEXT = """
# bridge | {new} Bridge | a bridge
The drawings of {s} came from the office of {person}, who won the contest of {year}.
= was designed by {person}
= has {person} as its designer
Road traffic on {s} has crossed the {river} near {city} since {year}.
= was laid across the {river} close to {city}
= is a road over the {river} beside {city}
Its piers are faced with {material}, taken from quarries {n12_90} km upstream.
= is supported by piers clad in {material}
= has supports covered with {material}
After {trouble} in {year}, {s} stayed shut for {n3_19} months.
= was closed for {n3_19} months because of {trouble}
= had to be shut for {n3_19} months following {trouble}
Breeding {animals} under the deck of {s} are counted every {month} by pupils from {city}.
= is a shelter for {animals} that schoolchildren from {city} count
= is home to {animals} recorded by the youth of {city}

# film | "{new}'s {adjn}" | a film
The plot of {s} follows {theme}, with {person} in the leading role.
= stars {person} in a story about {theme}
= tells of {theme}, with the lead played by {person}
Shooting of {s} took {n18_90} days in and around {city}, during {month}.
= was filmed around {city} in {n18_90} days
= needed {n18_90} days of shooting near {city}
The score of {s}, for {instruments}, was written by {person}.
= has music for {instruments} composed by {person}
= features a soundtrack of {instruments} by {person}
Censors in {country} withheld {s} until {year}, objecting to a scene with {animals}.
= was banned in {country} over a scene that shows {animals}
= could not be seen in {country} because {animals} appear in it
At the {city} Film Days, {s} lost the main award to a documentary on {craft}.
= was beaten at a festival in {city} by a documentary about {craft}
= left {city} without the top prize, which went to a picture on {craft}

# museum | {new} Museum | a museum
The founding gift of {s} was a cabinet of {goods} left by {person} in {year}.
= began with {goods} bequeathed by {person}
= grew out of a collection of {goods} that belonged to {person}
On the upper floor of {s} hang {n20_95} pictures of {animals} by the painter {person}.
= owns {n20_95} paintings of {animals} made by {person}
= has {n20_95} canvases with {animals} from the hand of {person}
A former {goods} works in {city} has housed {s} since {year}.
= is in an old factory for {goods} in {city}
= is lodged in premises at {city} where {goods} were once made
Courses in {craft} at {s} are paid for by {company}.
= is a school of {craft} with money from {company}
= runs {craft} workshops sponsored by {company}
Burglars who struck {s} in {year} took only {instruments} and {rock} samples.
= lost {instruments} to thieves in {year}
= was robbed of {instruments} in {year}

# university | University of {new} | a university
Its department of {field} opened in {year} with {n12_70} students, led by {person}.
= set up its school of {field} under {person}
= made {person} the first head of {field}
The campus of {s} lies on the {river}, on land given by {company}.
= received its grounds on the {river} from {company}
= was built beside the {river} on a plot donated by {company}
A laboratory at {s} tests {goods} for {company}.
= has checked the quality of {goods} on behalf of {company}
= was hired by {company} to examine {goods}
Students of {s} have won the {sport} trophy of {country} {n3_19} times.
= holds {n3_19} national titles in {sport} from {country}
= has taken the {sport} cup in {country} on {n3_19} occasions
In {year} {trouble} destroyed the {field} library of {s}.
= lost its books on {field} to {trouble}
= saw {trouble} wipe out its {field} library

# company | {new} {firm} | a company
{person}, a former {job}, registered {s} in {city} in {year} to sell {goods}.
= sells {goods} and was started by {person}
= has as its founder {person}, an ex-{job} from {city}
The plant of {s} in {country} turns out {goods} and employs {n110_940} people.
= makes {goods} at a site in {country}
= has a factory in {country} that produces {goods}
In {year} {s} bought {company}, a rival known for {goods}.
= took over {company}, a maker of {goods}
= acquired its competitor {company}, which sold {goods}
A court in {city} fined {s} {n2_60} million crowns after {trouble} at a depot.
= paid a fine of {n2_60} million crowns over {trouble}
= was ordered to pay {n2_60} million crowns following {trouble}
Since {year}, {s} has lent its name to the {sport} league of {country}.
= sponsors {sport} competitions in {country}
= gives money to {country}'s {sport} league

# team | {new} {mascot} | a sports club
{s} plays {sport} at the {new} Hall in {city}, with {n2_30} thousand seats.
= is a {sport} club that calls {city} home
= is a {sport} side based in {city}
Under coach {person}, {s} went unbeaten for {n11_40} matches in {year}.
= had a run of {n11_40} games without defeat under {person}
= did not lose for {n11_40} fixtures while {person} was coach
The crest of {s} shows {animals}, a nod to the town arms of {city}.
= has {animals} on its badge as a reference to {city}
= borrowed the {animals} on its emblem from {city}
In {year} {s} sold striker {person} to a club in {country} for {n2_60} million crowns.
= let {person} go to {country} for {n2_60} million crowns
= earned {n2_60} million crowns from {country} for {person}
Fans of {s} sell {food} outside the ground to pay for {instruments}.
= has supporters who finance {instruments} by selling {food}
= is followed by fans whose {food} stalls pay for {instruments}

# lake | Lake {new} | a lake
The {river} drains {s}, whose greatest depth of {n21_190} m lies off {city}.
= is {n21_190} m deep and feeds the {river}
= is emptied by the {river} and has a depth of {n21_190} m
Wild {animals} returned to {s} in {year}, brought by the biologist {person}.
= got its {animals} back thanks to {person}
= was restocked with {animals} by {person}
Divers found a cargo of {goods} in {s}, lost with the steamer {new} in {year}.
= is the grave of the {new} and its {goods}
= holds a sunken load of {goods} from the {new}
Along the shore of {s}, {plants} are cut each {month} for {craft} in {city}.
= is a source of {plants} for {craft} in {city}
= has banks where {plants} are gathered for {city}'s {craft}
Swimming in {s} was forbidden in {year} when {disease} spread from {city}.
= was off limits to swimmers owing to {disease} in {city}
= was closed for bathing after {city} suffered {disease}

# festival | {new} Festival | a festival
{s} began in {year} as a fair for {craft} on the main square of {city}.
= started out in {city} as a market for {craft}
= goes back to a {craft} fair held in {city}
Visitors to {s} eat about {n2_60} tonnes of {food}, most of it from {company}.
= serves {n2_60} tonnes of {food}
= is an occasion where guests consume {n2_60} tonnes of {food}
The parade of {s} is opened by {n21_95} {instruments}, led for years by {person}.
= opens with {n21_95} {instruments} under {person}
= had {person} lead its procession of {n21_95} {instruments}
In {year} {s} was called off because of {trouble} in {city}.
= did not take place in {year} on account of {trouble}
= was cancelled in {year} owing to {trouble}
Children at {s} dress up as {animals}, a custom brought from {country}.
= features children in the costume of {animals}, an idea from {country}
= copied its masks of {animals} from {country}

# railway | {new} Line | a railway
{s} links {city} with the {rock} mines of {city2} over {n21_190} km.
= is a link from {city} to {rock} pits near {city2}
= runs from {city} to the {rock} workings of {city2}
Its viaduct of {material} was finished in {year} by the contractor {company}.
= has a {material} viaduct erected by {company}
= had its {material} viaduct put up by {company}
Passengers on {s} fell to {n110_940} a day after {trouble} near {city}.
= lost travellers when {trouble} hit the area of {city}
= became less popular after {trouble} around {city}
Volunteers led by {person}, a {job}, have run {s} since {year}.
= is operated by volunteers whose leader is {person}
= has survived thanks to unpaid staff headed by {person}
Old coaches of {s} carried {food} and {animals} to markets in {country}.
= was once used to bring {animals} and {food} to {country}
= used to deliver {food} and live {animals} to {country}

# novel | "The {adjn} of {new}" | a novel
In {s}, {person} writes about {theme} in the harbour quarter of {city}.
= is the work of {person} and deals with {theme}
= was written by {person} as a tale of {theme}
The first print of {s}, {n110_940} copies, was bound in {material} grey by {company}.
= first appeared in {n110_940} copies from {company}
= was published by {company} with a run of {n110_940}
A translator from {country}, {person}, rendered {s} in verse in {year}.
= was given the form of a poem in {country} by {person}
= is available in a verse translation by {country}'s {person}
Its hero, a {job}, keeps {animals} in a cellar and dreams of {city}.
= has a {job} with {animals} as its main character
= centres on a {job} who owns {animals}
The manuscript of {s} was sold in {city} in {year} to pay for {policy}.
= raised money for {policy} when its manuscript was auctioned in {city}
= had its handwritten original sold in {city} in aid of {policy}

# garden | {new} Garden | a botanical garden
{s} keeps {n110_940} kinds of {plants}, many collected by {person} in {country}.
= contains {plants} that {person} brought from {country}
= is famous for {plants} from journeys of {person} through {country}
A glasshouse in {s} was given by {company} in {year} for the study of {field}.
= has a hothouse for {field} paid for by {company}
= got from {company} a greenhouse used in {field}
Ticket sales at {s} doubled when {animals} nested by the {river} gate.
= drew more guests once {animals} bred at the entrance by the {river}
= earned twice as much when {animals} settled near the {river}
In {month} {year}, {trouble} felled the oldest {plants} of {s}.
= lost its most ancient {plants} to {trouble} in {year}
= saw {trouble} ruin its oldest {plants} in {year}

# tower | {new} Tower | a tower
Rising {n31_190} m above {city}, {s} was put up in {year} as a watch post against {trouble}.
= is {n31_190} m tall and overlooks {city}
= has a height of {n31_190} m over {city}
The clock in {s} was built by {person}, a {job} paid in {food}.
= has a clock made by {person}, who was a {job}
= was given its clock by the {job} {person}
Since {year} {company} has rented {s} to test {goods}.
= is let to {company}, which tries out {goods} there
= serves {company} as a place to test {goods}
Restorers replaced the {material} roof of {s} with {material2} in {year}.
= exchanged its {material} roof for one of {material2}
= now has a roof of {material2} instead of {material}

# mine | {new} Mine | a mine
At {s}, {rock} was found in {year} by {person}, then a {job}.
= has yielded {rock} since its discovery by {person}
= was discovered by {person} as a source of {rock}
{company} worked {s} with {n110_940} men from {city} and {country}.
= employed {n110_940} workers under {company}
= had a staff of {n110_940} in the days of {company}
The pumps of {s} failed after {trouble}, and {animals} now live in the shafts near {city}.
= has {animals} in its shafts since {trouble} stopped the pumps
= was taken over by {animals} when {trouble} ended pumping
A choir of {s} miners toured {country} with {instruments} in {year}.
= sent a miners' choir with {instruments} to {country}
= had singers who travelled {country} accompanied by {instruments}

# newspaper | {new} {paper} | a newspaper
{s} was first printed in {city} in {year}, on a press meant for labels of {food}.
= was born in {city} on a machine for {food} labels
= began in {city} using a press for {food} packaging
Its editor {person} went to jail for {n3_19} months over an article on {policy}.
= had its editor {person} imprisoned for a piece about {policy}
= saw {person}, its chief editor, jailed because of a story on {policy}
In {year} {company} bought {s} and closed its {sport} pages.
= dropped coverage of {sport} under its owner {company}
= stopped writing about {sport} after {company} purchased it
Readers of {s} in {country} wait for its weekly column on {plants}.
= has a column on {plants} popular in {country}
= runs notes about {plants} that are read in {country}
"""
