//! What was not measured, and why.

/// Notes, of which those with the same reason become one line.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeftOut(Vec<Note>);

#[derive(Clone, Debug)]
struct Note {
    who: String,
    /// In which case; in none if empty.
    case: String,
    reason: String,
}

impl LeftOut {
    pub(crate) fn add(
        &mut self,
        who: impl Into<String>,
        case: impl Into<String>,
        reason: impl Into<String>,
    ) {
        self.0.push(Note { who: who.into(), case: case.into(), reason: reason.into() });
    }

    /// A line for each reason of each one left out.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut groups: Vec<(&Note, Vec<&str>)> = Vec::new();
        for note in &self.0 {
            let same = |(first, _): &&mut (&Note, Vec<&str>)| {
                first.who == note.who && first.reason == note.reason
            };
            match groups.iter_mut().find(same) {
                Some((_, cases)) => cases.push(&note.case),
                None => groups.push((note, vec![&note.case])),
            }
        }
        groups.iter().map(|(note, cases)| line(note, cases)).collect()
    }
}

fn line(note: &Note, cases: &[&str]) -> String {
    let Note { who, reason, .. } = note;
    match cases {
        [""] | [] => format!("left out: {who}: {reason}"),
        [case] => format!("left out: {who}, {case}: {reason}"),
        [case, others @ ..] => {
            format!("left out: {who}, {case} and {} more: {reason}", others.len())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_for_each_reason() {
        let mut left_out = LeftOut::default();
        left_out.add("torch", "", "no torch");
        left_out.add("candle", "1x2", "slow");
        left_out.add("candle", "1x3", "slow");
        left_out.add("candle", "1x4", "absent");
        assert_eq!(
            left_out.lines(),
            [
                "left out: torch: no torch",
                "left out: candle, 1x2 and 1 more: slow",
                "left out: candle, 1x4: absent",
            ]
        );
    }
}
