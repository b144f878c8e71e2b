//! Where a worker gets its models from.

use crate::models::Model;
use legwork_core::batch::Route;
use std::sync::Arc;

/// Finds the model of a route.
///
/// It is asked once for each run and answers quickly: what takes long, such as loading weights or connecting, is left to
/// the first request. Models of one route should share what they can, such as connections.
pub trait ModelSource: Send + Sync {
    /// The model of `route`.
    ///
    /// # Errors
    /// Why it cannot be used, in words for the person who configured it.
    fn model(&self, route: &Route) -> Result<Arc<dyn Model>, String>;
}

impl<F> ModelSource for F
where
    F: Fn(&Route) -> Result<Arc<dyn Model>, String> + Send + Sync,
{
    fn model(&self, route: &Route) -> Result<Arc<dyn Model>, String> {
        self(route)
    }
}
