//! `convert`: the same file with its attention layers under other names.

use mha::weights::Family;
use mha_examples::print::print_line;

use crate::args::Convert;
use crate::progress::Progress;
use crate::words::{bytes, counted, plain, said};
use crate::{kept, open};

/// Writes the converted file and says what was written.
pub(crate) fn convert(args: &Convert) -> Result<(), String> {
    kept::check(args)?;
    let checkpoint = open::open(&args.weights)?;
    let layers = checkpoint.inspect().layers.len();
    if layers == 0 {
        let file = args.weights.file.display();
        return Err(plain(format_args!("{file}: no attention layer to convert")));
    }
    let sizes = checkpoint.store().entries().filter_map(|(_, entry)| entry.byte_len());
    let total = sizes.fold(0_u64, |sum, size| sum.saturating_add(size as u64));

    let mut progress = Progress::of(total);
    let (mut tensors, mut written) = (0, 0);
    let outcome = checkpoint.convert(&args.out, args.to, |_, size| {
        progress.add(size);
        tensors += 1;
        written += size as u64;
    });
    drop(progress);
    outcome.map_err(|error| said(&error))?;

    if args.to != Family::Mha {
        print_line(format_args!(
            "heads, positions and scale are not in a file of {}: its config.json has to say them",
            args.to,
        ));
    }
    print_line(format_args!(
        "written: {}, {} as {}, {}, {}",
        plain(args.out.display()),
        counted(layers, "attention layer"),
        args.to,
        counted(tensors, "tensor"),
        bytes(written),
    ));
    Ok(())
}
