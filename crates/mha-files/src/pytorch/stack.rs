//! The stack of a pickle, and the marks on it.

use super::value::Value;
use crate::error::Problem;

/// The most values or marks. PyTorch puts a thousand at a time there.
const HIGHEST: usize = 1 << 20;

/// Values above the last mark can be taken; those below it only together, once the mark is gone.
#[derive(Debug, Default)]
pub(super) struct Stack {
    values: Vec<Value>,
    /// How high the stack was at each mark.
    marks: Vec<usize>,
}

impl Stack {
    pub(super) fn push(&mut self, value: Value) -> Result<(), Problem> {
        bounded(self.values.len())?;
        self.values.push(value);
        Ok(())
    }

    pub(super) fn mark(&mut self) -> Result<(), Problem> {
        bounded(self.marks.len())?;
        self.marks.push(self.values.len());
        Ok(())
    }

    pub(super) fn top(&self) -> Result<Value, Problem> {
        self.values[self.floor()..].last().copied().ok_or_else(underflow)
    }

    pub(super) fn pop(&mut self) -> Result<Value, Problem> {
        let top = self.top()?;
        self.values.pop();
        Ok(top)
    }

    /// The last `count` values, in the order in which they came.
    pub(super) fn pop_many(&mut self, count: usize) -> Result<Vec<Value>, Problem> {
        let above = self.values.len() - self.floor();
        let below = above.checked_sub(count).ok_or_else(underflow)?;
        Ok(self.values.split_off(self.floor() + below))
    }

    /// The values above the last mark, in the order in which they came, and the mark.
    pub(super) fn pop_to_mark(&mut self) -> Result<Vec<Value>, Problem> {
        let mark = self.marks.pop().ok_or_else(|| Problem::new("a mark", "none"))?;
        Ok(self.values.split_off(mark))
    }

    /// How many values lie below the last mark. Never more than there are: nothing takes them.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }
}

fn bounded(len: usize) -> Result<(), Problem> {
    if len < HIGHEST {
        return Ok(());
    }
    Err(Problem::new(format_args!("a stack of at most {HIGHEST}"), "more"))
}

fn underflow() -> Problem {
    Problem::new("a value on the stack", "none")
}
