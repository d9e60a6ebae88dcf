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
export type { AuditFinding, AuditOptions, AuditReads, AuditVerdict, AuditView } from './audit.ts'
export { type CallbackHeaders, type VerifyOptions, verifyCallback } from './callback.ts'
export {
  type Accepted,
  type ArtifactOptions,
  type Client,
  createClient,
  type DecideOptions,
  type DescribeOptions,
  type FindOptions,
  type PageOptions,
} from './client.ts'
export type { FollowOptions } from './follow.ts'
export type { KeyOptions, Keys, MadeKey, RevokeOptions, RotateOptions } from './keys.ts'
export type { CallOptions, ChainOptions, ClientOptions, SubmitOptions } from './options.ts'
export type { PolicyAccess, PolicyAnswer, PolicyDocument, PolicyTestOptions, PolicyView } from './policy.ts'
export type {
  ApprovalView,
  CallState,
  CallView,
  CatalogPage,
  CatalogTool,
  CircuitView,
  DeadLetter,
  FoundPage,
  FoundTool,
  KeyView,
  ListedTool,
  Paged,
  Replay,
  RuntimeView,
  ToolDoc,
  WorkerView,
} from './types.ts'
