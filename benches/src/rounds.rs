//! Turns in rounds, so that whatever else the machine does slows everyone alike.

use std::time::Instant;

use crate::{
    plan::{LEAST_ROUNDS, Plan},
    progress::Progress,
    turn::{TURN, Turn},
};

/// Someone who takes turns.
pub(crate) struct Player<'a> {
    pub(crate) name: String,
    pub(crate) take_turn: Box<dyn FnMut(Turn) -> Result<Vec<f64>, String> + 'a>,
}

/// The seconds of each run of each player, or why it failed.
pub(crate) fn play(
    title: &str,
    players: &mut [Player<'_>],
    plan: &Plan,
    progress: &mut Progress,
) -> Vec<Result<Vec<f64>, String>> {
    let mut scores: Vec<_> = players.iter().map(|_| Ok(Vec::new())).collect();
    let mut spent = vec![0.0; players.len()];
    for round in 0..plan.rounds {
        for place in 0..players.len() {
            // Nobody always follows the same one.
            let i = (round + place) % players.len();
            let (player, score) = (&mut players[i], &mut scores[i]);
            let Ok(taken) = score else { continue };
            if round >= LEAST_ROUNDS && spent[i] > plan.seconds {
                continue;
            }
            progress.say(format_args!(
                "{title}: round {} of at most {}, {}",
                round + 1,
                plan.rounds,
                player.name
            ));
            let begin = Instant::now();
            match (player.take_turn)(TURN) {
                Ok(seconds) => taken.extend(seconds),
                Err(error) => *score = Err(error),
            }
            spent[i] += begin.elapsed().as_secs_f64();
        }
    }
    scores
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_has_every_round_but_who_failed() {
        let plan = Plan { rounds: 4, ..Plan::quick() };
        let mut turns = 0;
        let player = |name: &str, fails: bool| Player {
            name: name.to_string(),
            take_turn: Box::new(move |_| {
                turns += 1;
                if fails { Err("no".to_string()) } else { Ok(vec![f64::from(turns)]) }
            }),
        };
        let mut players = [player("one", false), player("other", true)];
        let scores = play("test", &mut players, &plan, &mut Progress::new());
        assert_eq!(scores, [Ok(vec![1.0, 2.0, 3.0, 4.0]), Err("no".to_string())]);
    }
}
