//! What the finished model writes, and how fast.

use std::time::Instant;

use burn::tensor::backend::Backend;
use mha_examples::print::print_line;

use crate::{
    args::Cli,
    generate::{Way, generate},
    model::TinyLm,
    sampler::Sampler,
    vocabulary::Vocabulary,
};

/// Writes on from the tokens of the prompt; with `--check-cache` both ways, which must agree.
pub(crate) fn write<B: Backend>(
    cli: &Cli,
    model: &TinyLm<B>,
    vocabulary: &Vocabulary,
    prompt: &[i32],
    context: usize,
) -> Result<(), String> {
    let writing = &cli.writing;
    let timed = |way| {
        let sampler = Sampler::new(writing.temperature, cli.seed);
        let begin = Instant::now();
        let tokens = generate(model, prompt, writing.tokens, context, way, sampler);
        (tokens, begin.elapsed().as_secs_f64())
    };
    let say = |way, seconds: f64| {
        let how = match way {
            Way::Cached => "with the cache",
            Way::Recomputed => "without the cache",
        };
        let (count, speed) = (writing.tokens, writing.tokens as f64 / seconds);
        print_line(format_args!("{count} characters {how}: {seconds:.2} s, {speed:.0} per second"));
    };

    let way = writing.way();
    let (tokens, seconds) = timed(way);
    print_line(format_args!("\n{}{}\n", vocabulary.decode(prompt), vocabulary.decode(&tokens)));
    say(way, seconds);
    if writing.check_cache {
        let (recomputed, seconds) = timed(Way::Recomputed);
        say(Way::Recomputed, seconds);
        if let Some(place) = (0..tokens.len()).find(|&i| tokens[i] != recomputed[i]) {
            let [with, without] =
                [&tokens, &recomputed].map(|tokens| vocabulary.decode(&tokens[place..=place]));
            return Err(format!(
                "character {} of {} is {with:?} with the cache and {without:?} without it",
                place + 1,
                tokens.len()
            ));
        }
        print_line(format_args!("both wrote the same {} characters", tokens.len()));
    }
    Ok(())
}
