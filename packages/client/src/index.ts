export {
  type ArtifactRef,
  type ChainResult,
  type ChainStep,
  type ErrorCode,
  type ErrorInfo,
  type Json,
  type JsonObject,
  type Result,
  type ResultStatus,
  type StreamEvent,
  ToolError,
} from '@gantry/contract'
export { type CallbackHeaders, type VerifyOptions, verifyCallback } from './callback.ts'
export {
  type Accepted,
  type ArtifactOptions,
  type Client,
  createClient,
  type DescribeOptions,
  type FindOptions,
  type PageOptions,
} from './client.ts'
export type { FollowOptions } from './follow.ts'
export type { CallOptions, ChainOptions, ClientOptions, SubmitOptions } from './options.ts'
export type {
  CallState,
  CallView,
  CatalogPage,
  CatalogTool,
  CircuitView,
  DeadLetter,
  FoundPage,
  FoundTool,
  ListedTool,
  Paged,
  RuntimeView,
  ToolDoc,
  WorkerView,
} from './types.ts'
