//! What the heads of a layer look at, as a picture.

use std::{error::Error, fs, path::Path};

use burn::tensor::backend::Backend;
use mha_examples::{
    picture::{self, AttentionPicture, Head},
    print::print_line,
};

use crate::encoder::Encoder;

/// Draws each head of `layer`, from 1 to as many as there are, over the word pieces of a sentence.
pub(crate) fn draw<B: Backend>(
    encoder: &Encoder<B>,
    layer: usize,
    sentence: &str,
    dir: &Path,
) -> Result<(), Box<dyn Error>> {
    let batch = encoder.word_pieces.batch(&[sentence], &encoder.device)?;
    let weights = encoder.model.weights(layer - 1, &batch);
    let [_, _, seq, _] = weights.dims();
    let weights = weights.into_data().convert::<f32>().into_vec::<f32>()?;
    let heads = weights.chunks(seq * seq).enumerate().map(|(head, weights)| Head {
        title: format!("head {}", head + 1),
        weights: weights.to_vec(),
    });
    let picture = AttentionPicture {
        title: format!("Attention of layer {layer} of {}", encoder.model.blocks.len()),
        subtitle: "each row: what a word piece looks at".to_string(),
        tokens: encoder.word_pieces.names(sentence)?,
        outlined: Vec::new(),
        columns: 4,
        heads: heads.collect(),
    };
    fs::create_dir_all(dir).map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
    let name = format!("layer_{layer}");
    picture::save(&picture, dir, &name)?;
    print_line(format_args!("\nattention: {0}.svg and {0}.png", dir.join(name).display()));
    Ok(())
}
