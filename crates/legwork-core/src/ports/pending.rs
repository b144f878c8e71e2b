//! How a port that names no runtime is asked. What dropping the answer means is said by each port.

use std::future::Future;
use std::pin::Pin;

/// A boxed future.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
