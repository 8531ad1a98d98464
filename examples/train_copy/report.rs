//! The trained model's accuracy on unseen sequences, and the pictures of the run.

use std::{error::Error, fs, path::Path};

use burn::{
    data::dataloader::DataLoader,
    tensor::{ElementConversion, backend::Backend},
    train::metric::NumericEntry,
};
use mha_examples::picture::{self, AttentionPicture, Curve, CurvesPicture, Head, Panel};

use crate::{
    epochs::Epochs,
    loader::CopyLoader,
    model::CopyModel,
    task::{CopyTask, Split},
};

/// Sequences that the accuracy is measured on.
pub(crate) const TEST_SEQUENCES: usize = 512;

/// The share of the blanks of [`TEST_SEQUENCES`] unseen sequences that got their symbol, in
/// percent, rounded down to two decimals: 100.00 means every one.
pub(crate) fn test_accuracy<B: Backend>(
    model: &CopyModel<B>,
    task: CopyTask,
    batch_size: usize,
    device: &B::Device,
) -> f64 {
    let loader = CopyLoader::<B>::fixed(task, batch_size, Split::Test, TEST_SEQUENCES, device);
    let correct: i64 = loader
        .iter()
        .map(|batch| {
            let predicted = model.forward(batch.tokens).argmax(2).squeeze_dim::<2>(2);
            predicted.equal(batch.targets).int().sum().into_scalar().elem::<i64>()
        })
        .sum();
    let total = (TEST_SEQUENCES * task.length) as f64;
    (correct as f64 * 10_000.0 / total).floor() / 100.0
}

/// Draws the loss and accuracy that `burn-train` logged in `dir`, also before a resume.
pub(crate) fn draw_curves(dir: &Path, epochs: Epochs) -> Result<(), Box<dyn Error>> {
    let panel = |label: &str, top, metric: &str| Panel {
        label: label.to_string(),
        top,
        curves: vec![
            Curve { name: "training".to_string(), points: per_step(dir, epochs, metric) },
            Curve { name: "validation".to_string(), points: per_epoch(dir, epochs, metric) },
        ],
    };
    let picture = CurvesPicture {
        title: "Copy task: loss and token accuracy".to_string(),
        steps: epochs.steps,
        panels: vec![
            panel("cross-entropy loss", None, "Loss"),
            panel("accuracy (%)", Some(105.0), "Accuracy"),
        ],
    };
    picture::save(&picture, dir, "loss")
}

fn per_step(dir: &Path, epochs: Epochs, metric: &str) -> Vec<(usize, f64)> {
    let mut points = Vec::new();
    for epoch in 1..=epochs.count() {
        let values = read_log(dir, "train", epoch, metric);
        let first = epochs.steps_before(epoch) + 1;
        points.extend(values.into_iter().enumerate().map(|(i, (value, _))| (first + i, value)));
    }
    points
}

fn per_epoch(dir: &Path, epochs: Epochs, metric: &str) -> Vec<(usize, f64)> {
    let mean = |epoch| {
        let values = read_log(dir, "valid", epoch, metric);
        let count: usize = values.iter().map(|(_, count)| count).sum();
        let sum: f64 = values.iter().map(|(value, count)| value * *count as f64).sum();
        (count > 0).then(|| (epochs.steps_before(epoch + 1), sum / count as f64))
    };
    (1..=epochs.count()).filter_map(mean).collect()
}

/// A metric's values in one epoch, with how many items each stands for.
fn read_log(dir: &Path, split: &str, epoch: usize, metric: &str) -> Vec<(f64, usize)> {
    let file = dir.join(split).join(format!("epoch-{epoch}")).join(format!("{metric}.log"));
    // A missing log is a gap in the curve, no reason to lose the trained model over.
    let text = fs::read_to_string(file).unwrap_or_default();
    let entries = text.lines().filter_map(|line| NumericEntry::deserialize(line).ok());
    entries
        .map(|entry| match entry {
            NumericEntry::Value(value) => (value, 1),
            NumericEntry::Aggregated { aggregated_value, count } => (aggregated_value, count),
        })
        .collect()
}

/// Draws each head's attention on the first unseen sequence.
pub(crate) fn draw_attention<B: Backend>(
    model: &CopyModel<B>,
    task: CopyTask,
    dir: &Path,
    device: &B::Device,
) -> Result<(), Box<dyn Error>> {
    let tokens = task.batch::<B>(Split::Test, 0, 0, 1, device).tokens;
    let mut heads = Vec::new();
    for (layer, weights) in model.attention_weights(tokens.clone()).into_iter().enumerate() {
        let [_, _, seq, _] = weights.dims();
        let weights: Vec<f32> = weights.into_data().convert::<f32>().into_vec()?;
        heads.extend(weights.chunks(seq * seq).enumerate().map(|(head, weights)| Head {
            title: format!("layer {}, head {}", layer + 1, head + 1),
            weights: weights.to_vec(),
        }));
    }
    let tokens = tokens.into_data().convert::<i64>().into_vec::<i64>()?;
    let picture = AttentionPicture {
        title: "Attention on an unseen sequence".to_string(),
        subtitle: "outlined: each blank \"_\" at the symbol that it must copy".to_string(),
        tokens: tokens.into_iter().map(|token| task.label(token as usize)).collect(),
        outlined: (0..task.length).map(|i| (task.length + 1 + i, i)).collect(),
        columns: 2,
        heads,
    };
    picture::save(&picture, dir, "attention")
}
