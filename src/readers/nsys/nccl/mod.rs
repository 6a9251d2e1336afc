//! Which calls of NCCL a kernel of communication serves, and what they say of themselves.
//!
//! A call outside a group launches its kernel itself. Inside a group nothing is launched until the
//! outermost `ncclGroupEnd`, and then a kernel for each communicator that the group's calls name:
//! one launch serves several calls. So the sizes are summed over the calls, by communicator, and go
//! to the kernels in the order in which the group names the communicators. Of sends and receives
//! the sums are kept by peer too: an all-to-all of unlike sizes is a group of them.

mod calls;
mod communicators;
mod groups;
mod served;

pub use crate::readers::nsys::nccl::calls::{Call, Range, code_of_kernel, range};
pub use crate::readers::nsys::nccl::groups::{Groups, Outcome};
