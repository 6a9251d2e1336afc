//! The part of XLA's `HloProto` that says which operations communicate. Fields that are not listed
//! are passed over.
//!
//! Source: `xla/service/hlo.proto` and `xla/xla_data.proto` of the public repository openxla/xla;
//! field numbers checked on real files.

use prost::Message;

/// A compiled module as profilers attach it.
#[derive(Clone, PartialEq, Message)]
pub struct HloProto {
    /// The module.
    #[prost(message, optional, tag = "1")]
    pub module: Option<HloModule>,
}

/// A module: one program.
#[derive(Clone, PartialEq, Message)]
pub struct HloModule {
    #[prost(bytes = "vec", tag = "1")]
    pub name: Vec<u8>,
    #[prost(message, repeated, tag = "3")]
    pub computations: Vec<HloComputation>,
    /// The program id; absent when it is 0.
    #[prost(int64, tag = "5")]
    pub id: i64,
    #[prost(message, optional, tag = "15")]
    pub device_assignment: Option<DeviceAssignment>,
}

/// A computation: operations that run one after the other.
#[derive(Clone, PartialEq, Message)]
pub struct HloComputation {
    #[prost(message, repeated, tag = "2")]
    pub instructions: Vec<HloInstruction>,
    #[prost(int64, tag = "5")]
    pub id: i64,
}

/// An operation.
#[derive(Clone, PartialEq, Message)]
pub struct HloInstruction {
    #[prost(bytes = "vec", tag = "1")]
    pub name: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub opcode: Vec<u8>,
    #[prost(message, optional, tag = "3")]
    pub shape: Option<Shape>,
    #[prost(int64, tag = "26")]
    pub channel_id: i64,
    #[prost(int64, tag = "35")]
    pub id: i64,
    #[prost(int64, repeated, tag = "36")]
    pub operand_ids: Vec<i64>,
    #[prost(int64, repeated, tag = "38")]
    pub called_computation_ids: Vec<i64>,
    /// Groups as older versions write them.
    #[prost(message, repeated, tag = "49")]
    pub replica_groups: Vec<ReplicaGroup>,
    #[prost(message, repeated, tag = "52")]
    pub source_target_pairs: Vec<SourceTarget>,
    #[prost(bool, tag = "71")]
    pub use_global_device_ids: bool,
    #[prost(message, optional, tag = "87")]
    pub device_list: Option<DeviceList>,
}

/// A type with dimensions, or a tuple of them.
#[derive(Clone, PartialEq, Message)]
pub struct Shape {
    #[prost(int32, tag = "2")]
    pub element_type: i32,
    #[prost(int64, repeated, tag = "3")]
    pub dimensions: Vec<i64>,
    #[prost(message, repeated, tag = "4")]
    pub tuple: Vec<Shape>,
}

/// Members of one group.
#[derive(Clone, PartialEq, Message)]
pub struct ReplicaGroup {
    #[prost(int64, repeated, tag = "1")]
    pub ids: Vec<i64>,
}

/// A sender and a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct SourceTarget {
    #[prost(int64, tag = "1")]
    pub source: i64,
    #[prost(int64, tag = "2")]
    pub target: i64,
}

/// Groups as newer versions write them: listed, or as a rule.
#[derive(Clone, PartialEq, Message)]
pub struct DeviceList {
    #[prost(message, repeated, tag = "1")]
    pub groups: Vec<ReplicaGroup>,
    #[prost(message, optional, tag = "2")]
    pub iota: Option<IotaGroups>,
}

/// Groups as a rule: 0, 1, 2 ... in `dims`, transposed, cut into groups of `group_size`.
#[derive(Clone, PartialEq, Message)]
pub struct IotaGroups {
    #[prost(int64, tag = "1")]
    pub groups: i64,
    #[prost(int64, tag = "2")]
    pub group_size: i64,
    #[prost(int64, repeated, tag = "3")]
    pub dims: Vec<i64>,
    #[prost(int32, repeated, tag = "4")]
    pub perm: Vec<i32>,
}

/// Which device runs which replica of which partition.
#[derive(Clone, PartialEq, Message)]
pub struct DeviceAssignment {
    #[prost(int32, tag = "1")]
    pub replicas: i32,
    #[prost(int32, tag = "2")]
    pub partitions: i32,
    /// The assignment of each partition.
    #[prost(message, repeated, tag = "3")]
    pub of_partitions: Vec<ReplicaGroup>,
}
