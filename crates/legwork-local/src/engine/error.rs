//! Why the embedded model cannot answer.

use thiserror::Error;

/// A failure of the engine. None of them is the caller's fault except `Window` and `Grammar`.
#[derive(Debug, Error)]
pub enum EngineError {
    /// The weights could not be read.
    #[error("cannot read the model file: {0}")]
    Read(String),
    /// The file is no model that this engine runs.
    #[error("the model file is not one that the embedded engine runs: {0}; use a SmolLM2 file in GGUF form")]
    Unsupported(String),
    /// A matrix does not have the size that the packing needs.
    #[error("the model file holds a matrix of {rows} × {cols}, which the embedded engine cannot run")]
    Shape {
        /// Rows of the matrix.
        rows: usize,
        /// Columns of the matrix.
        cols: usize,
    },
    /// The form demanded of the reply could not be compiled.
    #[error("the form of the reply cannot be demanded of the embedded model: {0}")]
    Grammar(String),
    /// The prompt leaves no room for a reply.
    #[error(
        "the prompt has {prompt} tokens, and the embedded model's window holds {window}: shorten the goal"
    )]
    Window {
        /// Tokens of the prompt.
        prompt: usize,
        /// Tokens of the window.
        window: usize,
    },
    /// The thread that owns the model is gone.
    #[error("the embedded model has stopped; start the program again")]
    Stopped,
}
