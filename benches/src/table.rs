//! Tables of text.

use mha_examples::columns::{aligned, significant};

use crate::{
    case::Case,
    implementation::Implementation,
    results::{Measurement, Results},
};

/// What stands where nothing was measured.
const NOTHING: &str = "-";

/// A table's lines: the first column to the left, the others to the right; none without rows.
pub(crate) fn lines<const N: usize>(head: [&str; N], rows: Vec<Vec<String>>) -> Vec<String> {
    if rows.is_empty() {
        return Vec::new();
    }
    let head = std::iter::once(head.map(String::from).to_vec());
    aligned(&head.chain(rows).collect::<Vec<_>>())
}

/// Median milliseconds of all, and how many times as long as ours the others take.
pub(crate) fn times(results: &Results) -> Vec<String> {
    let cell = |implementation, case: &Case| {
        let ms = significant(results.median_ms(implementation, case)?);
        Some(match results.times_ours(implementation, case) {
            Some(times) => format!("{ms} ({times:.2}x)"),
            None => ms,
        })
    };
    by_case("median ms (times ours)", results, cell)
}

/// Peak memory in MB.
pub(crate) fn peaks(results: &Results) -> Vec<String> {
    by_case("peak MB above the start", results, |implementation, case| {
        results.find(implementation, case)?.peak_mb.map(significant)
    })
}

/// A row for each case, a column for each implementation; only those with anything in them.
fn by_case(
    title: &str,
    results: &Results,
    cell: impl Fn(Implementation, &Case) -> Option<String>,
) -> Vec<String> {
    let anyone = |m: &&Measurement| cell(m.implementation, &m.case).is_some();
    let measurements: Vec<_> = results.measurements.iter().filter(anyone).cloned().collect();
    let shown = Results { measurements };
    let implementations = shown.implementations();
    if implementations.is_empty() {
        return Vec::new();
    }
    let names = implementations.iter().map(|one| one.name().to_string());
    let mut rows = vec![std::iter::once(title.to_string()).chain(names).collect()];
    for case in shown.cases() {
        let cells = implementations.iter().map(|&implementation| {
            cell(implementation, &case).unwrap_or_else(|| NOTHING.to_string())
        });
        rows.push(std::iter::once(case.title()).chain(cells).collect());
    }
    aligned(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::results;

    #[test]
    fn the_table_has_medians_and_ratios() {
        assert_eq!(
            times(&results()),
            [
                "median ms (times ours)  mha-ndarray  mha-flex  burn-nn-ndarray         torch",
                "1 x 4096, forward              4.00      2.00     6.00 (1.50x)  6.00 (3.00x)",
            ]
        );
        assert_eq!(
            peaks(&results()),
            ["peak MB above the start  mha-flex", "1 x 4096, forward            12.5"]
        );
        assert!(times(&Results::default()).is_empty());
    }
}
