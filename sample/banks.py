"""The vocabulary of the invented world: everyday nouns, never names of real people.

``BANKS`` maps a bank's name to phrases. All can be used without an article (plurals and mass
nouns) unless the name says otherwise.
"""

_TEXT = {
    "animals": """
        otters, barn owls, hedgehogs, reindeer, salamanders, honeybees, badgers, storks,
        seals, cranes, beavers, bats, oysters, goats, falcons, eels, moths, turtles, donkeys,
        lynxes, frogs, swallows, squirrels, whales, crayfish, pelicans, foxes, ponies,
        snails, vultures, wolves, peacocks, jellyfish, dragonflies, camels, penguins""",
    "plants": """
        tulips, ferns, orchids, cacti, beech trees, roses, mosses, bamboo, water lilies,
        olive trees, lavender, wild garlic, palms, irises, heather, mangroves, apple trees,
        magnolias, seaweed, thistles, willows, hemp, sunflowers, chestnut trees, azaleas""",
    "material": """
        basalt, limestone, oak, copper, red brick, slate, marble, cast iron, glass, bamboo,
        concrete, granite, aluminium, sandstone, steel, clay, larch, bronze, zinc, flint, tin""",
    "instruments": """
        cellos, bagpipes, church bells, harpsichords, trumpets, banjos, accordions, flutes,
        drums, organs, violas, zithers, clarinets, harps, mandolins, bassoons, lutes""",
    "craft": """
        glassblowing, basket weaving, bookbinding, lace making, wood carving, clock making,
        saddlery, pottery, rope making, tapestry, engraving, stone cutting, dyeing, knitting,
        gilding, tanning, boat building, paper making, calligraphy, enamel work, embroidery""",
    "disease": """
        measles, gout, asthma, malaria, whooping cough, arthritis, migraine, cholera,
        anaemia, eczema, glaucoma, tuberculosis, stroke, epilepsy, hepatitis, osteoporosis,
        psoriasis, pneumonia, diabetes, sepsis, lupus, dengue, insomnia, angina,
        endometriosis, scoliosis, tinnitus, leprosy, rabies, kidney stones, influenza,
        depression, cataracts, scurvy""",
    "food": """
        smoked trout, plum jam, rye bread, goat cheese, lentil soup, honey cake,
        pickled beets, walnut oil, salted butter, dumplings, blackcurrant wine,
        roasted chestnuts, mustard, oatmeal biscuits, cider, sausages, mint tea,
        fig pastries, dried mushrooms, herring, pumpkin seeds, maple syrup, rice noodles,
        anchovies, ginger beer, yoghurt""",
    "job": """
        lighthouse keeper, schoolteacher, pharmacist, tram driver, midwife, botanist, lawyer,
        carpenter, goldsmith, astronomer, baker, geologist, librarian, surgeon, tailor,
        farmer, photographer, accountant, translator, blacksmith, violin teacher,
        customs officer, fisherman, weather forecaster, puppeteer, cartographer,
        veterinarian, typesetter""",
    "sport": """
        rowing, fencing, water polo, archery, curling, handball, judo, cycling, gymnastics,
        chess, wrestling, sailing, badminton, cricket, skiing, table tennis, hurdles, diving,
        weightlifting, ice hockey, volleyball, equestrian jumping, orienteering, pole vault""",
    "field": """
        hydrology, dentistry, folklore, soil science, acoustics, forestry, number theory,
        optics, public law, nursing, seismology, textile design, entomology, navigation,
        econometrics, theology, food chemistry, robotics, linguistics, glaciology,
        veterinary medicine, typography, archaeology, plasma physics, midwifery, musicology,
        metallurgy""",
    "goods": """
        ball bearings, umbrellas, piano strings, bicycle saddles, thermometers, fishing nets,
        padlocks, spectacles, fire hoses, tractors, matches, sewing needles, barometers,
        candles, elevators, ski bindings, porcelain cups, typewriters, tarpaulins, kites,
        wristwatches, water pumps, sunscreen, crayons, hearing aids, road signs, parachutes,
        mattresses""",
    "trouble": """
        flooding, a gas explosion, an avalanche, a bank failure, a rat plague, lightning,
        an earthquake, a dockers' strike, drought, a collapsed roof, a cyber attack,
        a landslide, a bus strike, a swarm of locusts, hail, a burst dam, a harbour fire,
        woodworm, a storm surge, a fuel shortage, dry rot, a train derailment,
        a volcanic ash cloud""",
    "theme": """
        a blind chess player, a strike of coal miners, two rival bakers,
        the last winter of a whaling station, a stolen altarpiece, a deaf drummer,
        an arctic postman, twin astronauts, a haunted cinema, a poisoned well,
        a runaway circus elephant, a widow who repairs clocks, a village without children,
        an orphan in a shipyard, a baker's confession, a beekeeper at war,
        a forbidden wedding, an escaped prisoner of war, a mountain doctor,
        a failed revolution, a family of smugglers, an amnesiac opera singer,
        a robot gardener, a night train to the coast, a drowned monastery, a teenage boxer""",
    "organ": """
        liver, kidney, retina, pancreas, spleen, lung, thyroid, heart muscle, bone marrow,
        skin, small intestine, prostate, spinal cord, hippocampus, bladder, placenta, colon,
        cochlea""",
    "symptom": """
        dizziness, hair loss, joint pain, night sweats, blurred vision, dry cough, nausea,
        memory loss, itching, fatigue, tremor, swollen ankles, loss of smell, chest pain,
        muscle cramps, stomach ulcers, nosebleeds, low mood, hives, sleepwalking, fever""",
    "compound": """
        zinc, vitamin D, caffeine, magnesium, fish oil, iron, folic acid, selenium, curcumin,
        ginger root, garlic extract, melatonin, iodine, green tea, probiotics,
        beetroot juice, calcium, cinnamon, aloe, cranberry juice, potassium, ginseng,
        lithium, creatine""",
    "cells": """
        mast cells, fibroblasts, stem cells, platelets, neurons, macrophages, T cells,
        astrocytes, hepatocytes, keratinocytes, osteoblasts, beta cells, muscle fibres,
        neutrophils, goblet cells, glial cells, adipocytes, red blood cells, podocytes""",
    "process": """
        apoptosis, cell migration, DNA repair, lipid storage, glucose uptake, wound healing,
        autophagy, inflammation, bone loss, blood clotting, viral entry, protein folding,
        iron transport, synapse pruning, scar formation, tumour growth, oxygen sensing,
        histone methylation, mucus secretion, calcium release, fibre regeneration,
        antigen display""",
    "group": """
        nurses, pregnant women, retired miners, school children, dialysis patients,
        truck drivers, premature infants, recruits, kidney donors, office workers,
        marathon runners, shift workers, adolescents with obesity,
        organ transplant recipients, smokers, farm workers, nursing home residents, veterans,
        heart surgery patients, college students""",
    "policy": """
        school lunches, rent control, bus fares, wind farms, prison staffing, the fuel levy,
        dental care for children, farm subsidies, broadband cables, teacher pensions,
        water meters, gun permits, rural hospitals, bail reform, plastic bags,
        public libraries, tuition loans, border posts, opioid clinics, property taxes,
        road tolls, child care, fire brigades, sewage plants, overtime pay,
        voter registration, paid parental leave, alcohol licences, police cameras,
        foster homes, disability benefits, lead pipes""",
    "task": """
        recipe parsing, sarcasm detection, table question answering, speech segmentation,
        patent search, code completion, sign translation, metaphor detection,
        dialect recognition, citation ranking, event coreference, handwriting recovery,
        melody retrieval, relation extraction, stance detection, grammar correction,
        image captioning, keyphrase mining, lip reading, entity linking, poem generation,
        spoken summarisation, emotion tagging, argument mining, dependency parsing,
        essay scoring, duplicate question search""",
    "metric": "recall, precision, accuracy, F1, BLEU, exact match, word error rate, AUC",
    "month": """
        January, February, March, April, May, June, July, August, September, October,
        November, December""",
    "adj": """
        regional, coastal, private, municipal, rural, Baroque, medieval, suburban,
        industrial, volunteer-run, prize-winning, alpine, riverside, wartime, disputed,
        little-known""",
    "rock": """
        granite, mica, gypsum, lithium ore, quartzite, salt, phosphate, opal, silver, coal,
        graphite, cobalt, amber, nickel, uranium, jade, chalk, tungsten, peat""",
}


def listed(text: str) -> tuple[str, ...]:
    """The words of a text; a compact way to write a list."""
    return tuple(text.split())


BANKS: dict[str, tuple[str, ...]] = {
    name: tuple(" ".join(part.split()) for part in text.split(",")) for name, text in _TEXT.items()
}
