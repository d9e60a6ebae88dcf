export {
  type ArtifactRef,
  type BackendBinding,
  type Call,
  type ChainCall,
  type ChainParallel,
  type ChainResult,
  type ChainStep,
  type Condition,
  type Content,
  codes,
  contractVersion,
  type Effect,
  type EffectClass,
  type ErrorCode,
  type ErrorInfo,
  type GrpcBinding,
  type HttpAuth,
  type HttpBinding,
  type HttpBody,
  type HttpParameter,
  type Identity,
  type Isolation,
  type Issue,
  type Json,
  type JsonObject,
  type JsonSchema,
  type OnCircuitOpen,
  type ParameterStyle,
  type ProgramCall,
  type ProgramLanguage,
  type ProgramLimits,
  type ProgramReport,
  type Result,
  type ResultStatus,
  type RetryRule,
  type SandboxCredential,
  type SandboxedBinding,
  type SandboxFile,
  type SandboxLimits,
  type SandboxNetwork,
  type SandboxOutput,
  type StepResult,
  type StreamEvent,
  type Tool,
  ToolError,
  type ToolExample,
  type Usage,
  type Warning,
} from '@gantry/contract'
export type {
  ArtifactInfo,
  ArtifactMaker,
  ArtifactPage,
  ArtifactQuery,
  ArtifactRange,
  Artifacts,
  NewArtifact,
  ReadArtifact,
} from './artifacts/artifact.ts'
export { type MemoryArtifactsOptions, memoryArtifacts } from './artifacts/memory.ts'
export type { Audit, AuditEnd, AuditRecord, AuditStart } from './audits/audit.ts'
export { type MemoryAudit, memoryAudit } from './audits/memory.ts'
export type {
  AttachedFile,
  Backend,
  BackendCall,
  BackendContext,
  BackendHost,
  BackendReport,
  FoundTool,
  Health,
  InnerSearchOptions,
  ProgressReport,
  Published,
  ToolCallOptions,
  ToolChainOptions,
  ToolContext,
} from './backends/backend.ts'
export { type HttpOptions, http } from './backends/http.ts'
export type {
  EffectSink,
  InnerNames,
  InnerOutcome,
  InnerRequest,
  InnerStep,
  JournaledOutcome,
  ProgramJournal,
  StepNames,
  WrittenFile,
} from './backends/program-journal.ts'
export type {
  Catalog,
  CatalogChange,
  CatalogEntry,
  ListQuery,
  Page,
  SearchHit,
  SearchOptions,
  Viewer,
} from './catalogs/catalog.ts'
export type { DescribeOptions, ToolDoc } from './catalogs/describe.ts'
export type { Embedder } from './catalogs/embeddings.ts'
export type { Toolset } from './catalogs/filter.ts'
export { memoryCatalog } from './catalogs/memory.ts'
export type { ChainOptions, StepMiddleware } from './chain/chain.ts'
export type { ChainWork, CodeWork, WorkEngine } from './chain/work-engine.ts'
export type {
  Egress,
  EgressAllow,
  EgressBounds,
  EgressEvent,
  EgressRequest,
  EgressResponse,
  EgressRule,
  EgressScope,
  EgressTarget,
} from './egress/egress.ts'
export { createEgress } from './egress/egress.ts'
export type { EgressOptions, HostAddress, HostLookup } from './egress/options.ts'
export { createExecutor } from './executor.ts'
export type {
  BackendControl,
  CodeOptions,
  Executor,
  FindOptions,
  ListTools,
  QuarantineControl,
  RunOptions,
  ToolControl,
} from './executor-interface.ts'
export type { ExecutorLimits, ExecutorOptions } from './executor-options.ts'
export { filePins } from './pins/file.ts'
export { memoryPins } from './pins/memory.ts'
export type { Pin, PinnedDefinition, PinStore, Pins } from './pins/pin.ts'
export type { CheckedCall, Explanation, RuntimeExplanation } from './pipeline/check.ts'
export type { LookupAnswer, LookupFunction } from './pipeline/lookup.ts'
export type { EventMap, EventName } from './pipeline/ports.ts'
export type { Reconciled } from './pipeline/reconcile.ts'
export type { Recorded } from './pipeline/record.ts'
export type { BackendInfo } from './pipeline/resolve.ts'
export { allOf } from './policies/all-of.ts'
export type { Approval, ApprovalRequest, Approver, Decision, Policy, PolicyRequest } from './policies/policy.ts'
export type { ValueCondition, When } from './policies/read-rule.ts'
export { type Rule, type RulesOptions, rules } from './policies/rules.ts'
export { tenantTools } from './policies/tenant-tools.ts'
export {
  type Breaker,
  type BreakerOptions,
  type Breakers,
  type BreakersOptions,
  createBreaker,
  createBreakers,
  type Permit,
} from './resilience/breaker.ts'
export { type Bulkhead, type BulkheadOptions, createBulkhead } from './resilience/bulkhead.ts'
export type { BreakerEvent, BreakerState } from './resilience/circuit.ts'
export {
  createRateLimit,
  createRateLimits,
  type RateLimit,
  type RateLimitOptions,
  type RateLimits,
  type RateLimitsOptions,
} from './resilience/rate-limit.ts'
export {
  createRetryBudget,
  isRepeatable,
  type RetryBudget,
  type RetryBudgetOptions,
  type RetryOptions,
  retry,
} from './resilience/retry.ts'
export type { TenantCircuitEvent } from './resilience/tenant-circuits.ts'
export type { Runtime } from './runtimes/runtime.ts'
export type { RuntimeControl } from './runtimes/runtimes.ts'
export {
  type LazyRuntimes,
  lazyRuntimes,
  type ProgramTraits,
  type RuntimeChoice,
  type RuntimeInfo,
  type Runtimes,
  type RuntimesLoad,
  type RuntimeVerdict,
} from './runtimes/runtimes.ts'
export type { AskForTrial, BackendSafeguards, CircuitControl, SafeguardOptions } from './safeguards.ts'
export { encryptedSecrets } from './secrets/encrypted.ts'
export { environmentSecrets } from './secrets/environment.ts'
export { type FileSecretsOptions, fileSecrets } from './secrets/file.ts'
export { firstOf } from './secrets/first-of.ts'
export { memorySecrets } from './secrets/memory.ts'
export type { SecretRequest, SecretSource } from './secrets/secret.ts'
export { openSecretStore, type SecretStore, type SecretStoreOptions } from './secrets/store.ts'
export type { QuarantinedTool, SourceFault } from './tool-discovery.ts'
export type { ToolVisibility } from './tool-visibility.ts'
export { type ArgsOf, type DefinedTool, defineTool, type ToolDefinition, type ToolSchema } from './tools/tool.ts'
export type { Span, SpanFacts, SpanOptions, Tracer } from './tracing/tracer.ts'
