export type { Call, Identity, TraceContext } from './call.ts'
export type { ChainCall, ChainParallel, ChainResult, ChainStep, Condition, StepResult } from './chain.ts'
export { type CodeInfo, codes, type EffectRisk, type ErrorCode, type Stage } from './codes.ts'
export {
  type ErrorCause,
  type ErrorDetails,
  type ErrorInfo,
  type Issue,
  ToolError,
  type ToolErrorOptions,
} from './error.ts'
export type { Json, JsonObject, JsonSchema } from './json.ts'
export type {
  ArtifactRef,
  Content,
  Effect,
  LogLevel,
  ProgramCall,
  ProgramLanguage,
  ProgramLimits,
  ProgramReport,
  Report,
  Result,
  ResultRuntime,
  ResultStatus,
  ResultTool,
  StreamEnd,
  StreamEvent,
  Usage,
  Warning,
} from './result.ts'
export { type OutcomeClass, outcomeClassOf, retriesOf } from './result.ts'
export type {
  Isolation,
  SandboxCredential,
  SandboxFile,
  SandboxLimit,
  SandboxLimits,
  SandboxNetwork,
  SandboxOutput,
} from './sandbox.ts'
export {
  decodeWebhookKey,
  isSignedHeader,
  parseWebhookKey,
  signWebhook,
  verifyWebhook,
  type WebhookHeaders,
  type WebhookVerdict,
} from './signatures.ts'
export type {
  BackendBinding,
  CallLimits,
  Deprecation,
  EffectClass,
  GrpcBinding,
  HttpAuth,
  HttpBinding,
  HttpBody,
  HttpParameter,
  OnCircuitOpen,
  ParameterStyle,
  RetryRule,
  SandboxedBinding,
  Tool,
  ToolAnnotations,
  ToolExample,
  ToolIcon,
} from './tool.ts'
export type {
  ApprovalFile,
  ApprovalMessage,
  ApprovalNote,
  ApprovalView,
  AuditFinding,
  AuditVerdict,
  AuditView,
  CallKind,
  CallState,
  CallView,
  DeadLetter,
  DependencyView,
  HealthView,
  KeyView,
  Paged,
  Replay,
  UnrecordedView,
  WorkerView,
} from './views.ts'

/** Version of everything in this package; a change that old readers cannot take raises the first number. */
export const contractVersion = '1.0'
