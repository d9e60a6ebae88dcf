export {
  type ApprovalFile,
  type ApprovalNote,
  type ApprovalView,
  type ArtifactRef,
  type AuditFinding,
  type AuditVerdict,
  type AuditView,
  type CallState,
  type CallView,
  type ChainResult,
  type ChainStep,
  type DeadLetter,
  type ErrorCode,
  type ErrorInfo,
  type HealthView,
  type Json,
  type JsonObject,
  type KeyView,
  type Paged,
  type Replay,
  type Result,
  type ResultStatus,
  type StreamEvent,
  ToolError,
  type WorkerView,
} from '@gantry/contract'
export type { AuditOptions, AuditReads } from './audit.ts'
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
export { type Credentials, credentialsOf } from './credentials.ts'
export type { FollowOptions } from './follow.ts'
export type { KeyOptions, Keys, MadeKey, RevokeOptions, RotateOptions } from './keys.ts'
export type { CallOptions, ChainOptions, ClientOptions, CodeOptions, SubmitOptions } from './options.ts'
export type { PolicyAccess, PolicyAnswer, PolicyDocument, PolicyTestOptions, PolicyView } from './policy.ts'
export type {
  CatalogPage,
  CatalogTool,
  CircuitStateView,
  CircuitView,
  FoundPage,
  FoundTool,
  ListedTool,
  RuntimeView,
  ToolDoc,
} from './types.ts'
