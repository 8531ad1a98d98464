//! A line of progress about every second, on a terminal and off.

use std::time::{Duration, Instant};

use mha_examples::print::print_line;

/// How long no line is printed after a line.
const INTERVAL: Duration = Duration::from_secs(1);

/// What the lines are made from.
#[derive(Debug)]
pub(crate) struct Progress {
    steps: usize,
    tokens_per_step: usize,
    begin: Instant,
    /// When the last line was printed and after which step.
    last: (Instant, usize),
    /// The losses since then.
    losses: Vec<f64>,
}

impl Progress {
    pub(crate) fn begin(steps: usize, tokens_per_step: usize) -> Self {
        let now = Instant::now();
        Self { steps, tokens_per_step, begin: now, last: (now, 0), losses: Vec::new() }
    }

    /// Takes note of a step, with the newest validation loss, and prints a line when it is time.
    pub(crate) fn step(&mut self, step: usize, loss: f64, validation: f64) {
        self.losses.push(loss);
        let (since, last_step) = self.last;
        if since.elapsed() < INTERVAL && step < self.steps {
            return;
        }
        let loss = self.losses.iter().sum::<f64>() / self.losses.len() as f64;
        let tokens = ((step - last_step) * self.tokens_per_step) as f64;
        let left = self.begin.elapsed().as_secs_f64() / step as f64 * (self.steps - step) as f64;
        print_line(format_args!(
            "step {step}/{}  loss {loss:.4}  validation {validation:.4}  {:.0} tokens/s  {} left",
            self.steps,
            tokens / since.elapsed().as_secs_f64(),
            duration(left),
        ));
        self.last = (Instant::now(), step);
        self.losses.clear();
    }
}

/// `48 s` or `2 min 05 s`.
fn duration(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds} s"),
        (minutes, seconds) => format!("{minutes} min {seconds:02} s"),
    }
}
