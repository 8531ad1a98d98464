//! `inspect`: the attention layers of a file as a table, and what would be loaded where.

use mha::weights::{Checkpoint, Inspected, Report, Used};
use mha_examples::{
    columns::{display_width, pad_left, pad_right},
    print::print_line,
};

use crate::args::Inspect;
use crate::group::{Group, groups};
use crate::words::{bytes, counted, plain, said};
use crate::{open, traits};

/// Where there are more kinds of layers than this, their tensors are named only when asked for.
const FEW: usize = 4;

/// What layers have in common that are shown as one: their cells, and a line for each tensor.
type Known = (Vec<String>, Vec<Vec<String>>);

/// Prints what the file has.
pub(crate) fn inspect(args: &Inspect) -> Result<(), String> {
    let checkpoint = open::open(&args.weights)?;
    print_line(format_args!("{}", about(args, &checkpoint)));
    let inspection = checkpoint.inspect();
    let entry = |name: &str| {
        checkpoint.store().entry(name).map_or(String::new(), |entry| entry.to_string())
    };
    let (mut known, mut refused) = (Vec::new(), Vec::new());
    for Inspected { prefix, layer, report, .. } in &inspection.layers {
        let name = plain(prefix);
        match layer {
            Ok(layer) => {
                let mut tensors = tensors(prefix, report);
                if let Some((table, _)) = layer.shared_table() {
                    let entry = entry(table);
                    tensors.push(vec![
                        format!("  {}", plain(table)),
                        entry,
                        "-> the bias of a call".into(),
                    ]);
                }
                let contents = (traits::cells(layer).to_vec(), tensors);
                known.push((name, contents));
            }
            Err(error) => refused.push((name, without(&said(error), prefix))),
        }
    }
    let ready = known.len();
    print_known(&groups::<Known>(known), args.tensors);
    print_refused(&groups(refused));

    if args.tensors && !inspection.others.is_empty() {
        print_line(format_args!("\nother tensors"));
        let others = inspection.others.iter();
        print_table(
            &others.map(|name| vec![format!("  {}", plain(name)), entry(name)]).collect::<Vec<_>>(),
            &[],
        );
    }
    print_line(format_args!(
        "\n{}, {ready} of them can be loaded; {}",
        counted(inspection.layers.len(), "attention layer"),
        counted(inspection.others.len(), "other tensor"),
    ));
    Ok(())
}

/// The file, how much is in it, and the kind of model that it is.
fn about(args: &Inspect, checkpoint: &Checkpoint) -> String {
    let (mut tensors, mut size) = (0, 0_u64);
    for (_, entry) in checkpoint.store().entries() {
        tensors += 1;
        size = size.saturating_add(entry.byte_len().unwrap_or(0) as u64);
    }
    let kind = checkpoint.model().model_type();
    let kind = kind.map_or(String::new(), |kind| format!("; model_type {}", plain(kind)));
    let file = plain(args.weights.file.display());
    format!("{file}: {}, {}{kind}", counted(tensors, "tensor"), bytes(size))
}

/// A row for each tensor below the prefix, named without it: what it is, and what it becomes.
fn tensors(prefix: &str, report: &Report) -> Vec<Vec<String>> {
    let below = |name: &str| {
        let skip = if prefix.is_empty() { 0 } else { prefix.len() + 1 };
        format!("  {}", plain(name.get(skip..).unwrap_or(name)))
    };
    let used = report.used.iter().map(|Used { tensor, shape, dtype, parameters, .. }| {
        vec![below(tensor), format!("{dtype} {shape:?}"), format!("-> {}", parameters.join(", "))]
    });
    let ignored = report.ignored.iter();
    let ignored = ignored.map(|name| vec![below(name), String::new(), "ignored".to_string()]);
    used.chain(ignored).collect()
}

/// An error without its layer's prefix, which stands before it: that of equal layers is then the same.
fn without(error: &str, prefix: &str) -> String {
    let said = match error.strip_prefix(&format!("{prefix:?}")) {
        None => error.to_string(),
        // `"prefix": what` or `"prefix" (family): what`.
        Some(rest) => match rest.strip_prefix(" (") {
            Some(rest) => rest.replacen("): ", ": ", 1),
            None => rest.trim_start_matches(": ").to_string(),
        },
    };
    if prefix.is_empty() { said } else { said.replace(&format!("{prefix}."), "") }
}

fn print_known(groups: &[Group<Known>], all: bool) {
    if groups.is_empty() {
        return;
    }
    let head = ["layers"].into_iter().chain(traits::HEAD).map(String::from).collect();
    let row = |group: &Group<Known>| [vec![group.prefix()], group.contents.0.clone()].concat();
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(groups.iter().map(row)).collect();
    print_line(format_args!(""));
    print_table(&rows, &["d_model", "heads", "head_dim"]);
    if groups.len() > FEW && !all {
        print_line(format_args!("\n--tensors names their tensors"));
        return;
    }
    for group in groups {
        print_line(format_args!("\n{}", group.prefix()));
        print_table(&group.contents.1, &[]);
    }
}

fn print_refused(groups: &[Group<String>]) {
    if groups.is_empty() {
        return;
    }
    print_line(format_args!("\ncannot be loaded"));
    for group in groups {
        print_line(format_args!("  {}: {}", group.prefix(), group.contents));
    }
}

/// Rows in columns, to the left but for those whose head is in `right`.
fn print_table(rows: &[Vec<String>], right: &[&str]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| display_width(cell)).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let to_right = |column: usize| {
        let head = rows.first().and_then(|row| row.get(column));
        head.is_some_and(|head| right.contains(&head.as_str()))
    };
    let to_right: Vec<bool> = (0..columns).map(to_right).collect();
    for row in rows {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let width = widths[column];
            if to_right[column] { pad_left(cell, width) } else { pad_right(cell, width) }
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        print_line(format_args!("{}", line.trim_end()));
    }
}
