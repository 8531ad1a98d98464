//! Tables of text.

use mha_examples::columns::{display_width, pad_left, pad_right};

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
    aligned(std::iter::once(head.map(String::from).to_vec()).chain(rows).collect())
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
    aligned(rows)
}

fn aligned(rows: Vec<Vec<String>>) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| display_width(cell)).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
            if column == 0 { pad_right(cell, width) } else { pad_left(cell, width) }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_string()
    };
    rows.iter().map(line).collect()
}

/// Three significant digits, or all before the point.
fn significant(value: f64) -> String {
    let decimals = match value {
        ..0.995 => 3,
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
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

    #[test]
    fn three_digits_are_significant() {
        let texts = [0.1234, 0.9999, 1.234, 12.34, 99.99, 1234.5].map(significant);
        assert_eq!(texts, ["0.123", "1.00", "1.23", "12.3", "100", "1234"]);
    }
}
