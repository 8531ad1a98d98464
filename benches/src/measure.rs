//! Every case, with everyone who can do it.

use crate::{
    case::Case,
    contestants::{Contestant, Tokens},
    data,
    left_out::LeftOut,
    memory,
    only::Only,
    plan::Plan,
    progress::Progress,
    results::{Measurement, Results},
    rounds::{self, Player},
    scratch::Scratch,
};

/// Those who take part.
pub(crate) type Contestants<'a> = [Box<dyn Contestant + 'a>];

/// The time of all cases that are asked for.
pub(crate) fn times(
    plan: &Plan,
    only: &Only,
    contestants: &mut Contestants<'_>,
    scratch: &Scratch,
    left_out: &mut LeftOut,
    progress: &mut Progress,
) -> Result<Results, String> {
    let mut results = Results::default();
    for (i, case) in plan.cases.iter().enumerate() {
        let title = format!("case {} of {}, {}", i + 1, plan.cases.len(), case.title());
        let mut able = Vec::new();
        for contestant in contestants.iter_mut() {
            let implementation = contestant.implementation();
            if !only.measures(implementation, case) {
                continue;
            }
            progress.say(format_args!("{title}: is there memory? {}", implementation.name()));
            let reason = implementation
                .why_not(case)
                .or_else(|| memory::too_much(contestant.as_mut(), case).err());
            match reason {
                Some(reason) => left_out.add(implementation.name(), case.to_string(), reason),
                None => able.push(contestant),
            }
        }
        if able.is_empty() {
            continue;
        }
        let values = data::tokens(case);
        let tokens = Tokens { values: &values, file: &scratch.write(&values)? };
        let mut failed = |contestant: &dyn Contestant, reason| {
            left_out.add(contestant.implementation().name(), case.to_string(), reason);
        };
        let mut ready = Vec::new();
        for contestant in able {
            progress.say(format_args!("{title}: {}", contestant.implementation().name()));
            match contestant.prepare(case, &tokens) {
                Ok(()) => ready.push(contestant),
                Err(reason) => failed(contestant.as_ref(), reason),
            }
        }
        let player = |contestant| -> Player<'_> { player(contestant) };
        let scores = {
            let mut players: Vec<_> =
                ready.iter_mut().map(|contestant| player(contestant.as_mut())).collect();
            rounds::play(&title, &mut players, plan, progress)
        };
        for (contestant, score) in ready.into_iter().zip(scores) {
            contestant.release();
            let implementation = contestant.implementation();
            match score {
                Ok(seconds) => results.measurements.push(Measurement {
                    implementation,
                    case: *case,
                    seconds,
                    peak_mb: None,
                }),
                Err(reason) => failed(contestant.as_ref(), reason),
            }
        }
    }
    Ok(results)
}

fn player<'a>(contestant: &'a mut (dyn Contestant + '_)) -> Player<'a> {
    Player {
        name: contestant.implementation().name().to_string(),
        take_turn: Box::new(|turn| contestant.take_turn(turn)),
    }
}

/// The peak memory of what was timed, where the plan asks for it.
pub(crate) fn peaks(
    plan: &Plan,
    contestants: &mut Contestants<'_>,
    results: &mut Results,
    left_out: &mut LeftOut,
    progress: &mut Progress,
) {
    let wanted = |case: &Case| plan.peaks.contains(case);
    let n = results.measurements.iter().filter(|m| wanted(&m.case)).count();
    let measurements = results.measurements.iter_mut().filter(|m| wanted(&m.case));
    for (i, measurement) in measurements.enumerate() {
        let Measurement { implementation, case, .. } = *measurement;
        let name = implementation.name();
        progress.say(format_args!("peak memory {} of {n}: {name}, {}", i + 1, case.title()));
        let contestant = contestants.iter_mut().find(|one| one.implementation() == implementation);
        let Some(contestant) = contestant else { continue };
        match contestant.peak_mb(&case) {
            Ok(peak_mb) => measurement.peak_mb = Some(peak_mb),
            Err(reason) => left_out.add(name, format!("peak memory of {case}"), reason),
        }
    }
}
