export type {
  GrpcBinding,
  HttpAuth,
  HttpBinding,
  HttpBody,
  HttpParameter,
  ParameterStyle,
  SandboxedBinding,
} from './bindings.ts'
export type { Call, Identity, TraceContext } from './call.ts'
export type { ChainCall, ChainParallel, ChainResult, ChainStep, Condition, StepResult } from './chain.ts'
export type { ProgramCall, ProgramLanguage, ProgramLimits, ProgramReport } from './code.ts'
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
export { type OutcomeClass, outcomeClassOf, retriesOf } from './outcome-class.ts'
export type {
  ArtifactRef,
  Content,
  Effect,
  LogLevel,
  Report,
  Result,
  ResultStatus,
  ResultTool,
  StreamEnd,
  StreamEvent,
  Usage,
  Warning,
} from './result.ts'
export type {
  Isolation,
  SandboxCredential,
  SandboxFile,
  SandboxLimit,
  SandboxLimits,
  SandboxNetwork,
  SandboxOutput,
} from './sandbox.ts'
export { isSignedHeader } from './signed-headers.ts'
export type {
  BackendBinding,
  CallLimits,
  Deprecation,
  EffectClass,
  OnCircuitOpen,
  RetryRule,
  Tool,
  ToolAnnotations,
  ToolExample,
  ToolIcon,
} from './tool.ts'
export { contractVersion } from './version.ts'
export type {
  ApprovalFile,
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
