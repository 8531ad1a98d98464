//! Elements moved between a tensor of a file and our parameters, whatever their type.

use super::source::{Piece, Source};

/// What `piece` has of `stored`, a tensor of the shape of `source` in elements of `size` bytes.
pub(crate) fn pick(stored: &[u8], size: usize, source: &Source, piece: &Piece) -> Vec<u8> {
    let mut ours = vec![0; piece.shape.iter().product::<usize>() * size];
    for_each(source, piece, |there, here| {
        ours[here * size..][..size].copy_from_slice(&stored[there * size..][..size]);
    });
    ours
}

/// The inverse of [`pick`]: puts `ours` where `piece` lies in `stored`.
pub(crate) fn place(stored: &mut [u8], ours: &[u8], size: usize, source: &Source, piece: &Piece) {
    for_each(source, piece, |there, here| {
        stored[there * size..][..size].copy_from_slice(&ours[here * size..][..size]);
    });
}

/// Calls `step` with each element's place in the file and in our parameter.
fn for_each(source: &Source, piece: &Piece, mut step: impl FnMut(usize, usize)) {
    let (n, total) = (piece.features.len(), source.n_features());
    let rows = piece.shape.iter().product::<usize>() / n.max(1);
    for (feature, &stored) in piece.features.iter().enumerate() {
        for row in 0..rows {
            let there =
                if source.features_first { stored * rows + row } else { row * total + stored };
            step(there, row * n + feature);
        }
    }
}
