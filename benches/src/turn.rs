//! Runs that are measured together, before another implementation has its turn.

use serde::Serialize;

/// When a turn ends.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Turn {
    /// It ends after so many seconds,
    pub(crate) seconds: f64,
    /// or so many runs.
    pub(crate) runs: usize,
}

/// Long enough for the clock, short enough for the cores to be shared fairly.
pub(crate) const TURN: Turn = Turn { seconds: 0.1, runs: 200 };

/// Seconds at the beginning of a turn whose runs are not counted: they pay for caches that others
/// filled and for threads that sleep or sit on one core.
const WARM_UP: f64 = 0.05;

/// A first run of more seconds than this has paid for all that itself, and is counted.
const LONG: f64 = 0.2;

/// The seconds of each run of a turn.
pub(crate) fn take_turn(
    mut run: impl FnMut() -> Result<f64, String>,
    turn: Turn,
) -> Result<Vec<f64>, String> {
    let first = run()?;
    let mut taken = if first < LONG { Vec::new() } else { vec![first] };
    let mut warm_up = first;
    while warm_up < WARM_UP {
        warm_up += run()?;
    }
    while taken.is_empty() || (taken.iter().sum::<f64>() < turn.seconds && taken.len() < turn.runs)
    {
        taken.push(run()?);
    }
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn_of(seconds: f64) -> Vec<f64> {
        take_turn(|| Ok(seconds), Turn { seconds: 1.0, runs: 5 }).unwrap()
    }

    #[test]
    fn a_turn_ends_by_time_or_by_number() {
        assert_eq!(turn_of(0.001).len(), 5);
        assert_eq!(turn_of(0.4).len(), 3);
        assert_eq!(turn_of(7.0).len(), 1);
    }

    #[test]
    fn short_first_runs_are_not_counted() {
        let mut next = [0.03, 0.03, 2.0, 3.0].into_iter();
        let run = || next.next().ok_or_else(|| "one run too many".to_string());
        assert_eq!(take_turn(run, Turn { seconds: 1.0, runs: 5 }), Ok(vec![2.0]));
    }
}
