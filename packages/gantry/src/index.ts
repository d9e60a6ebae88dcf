/**
 * What most programs need of all packages, by subject. `createExecutor` is the one of `@gantry/tools`, which has the
 * backends of all built-in tools and the runtimes for programs.
 */

// The executor and its tools.

export {
  type ArgsOf,
  type AttachedFile,
  type CheckedCall,
  contractVersion,
  type DefinedTool,
  defineTool,
  type EffectSink,
  type EventMap,
  type EventName,
  type Executor,
  type ExecutorLimits,
  type LookupAnswer,
  type LookupFunction,
  type ProgressReport,
  type Published,
  type Reconciled,
  type Recorded,
  type RunOptions,
  type Tool,
  type ToolCallOptions,
  type ToolChainOptions,
  type ToolContext,
  type ToolControl,
  type ToolDefinition,
  type ToolExample,
  type ToolSchema,
  type WrittenFile,
} from '@gantry/core'
export {
  type BuiltinOptions,
  builtinTools,
  createExecutor,
  demoTools,
  type ExecutorOptions,
  type GrantedCredential,
  loadToolsFolder,
  type RefusedTool,
  type ToolsFolder,
  type ToolsFolderMemory,
  type ToolsFolderOptions,
} from '@gantry/tools'

// A configuration module.

export type { BackendDocument, GantryConfig } from '@gantry/service/internal/config/config'

// What a call gives back.

export {
  type ArtifactRef,
  type Call,
  type Content,
  codes,
  type Effect,
  type EffectClass,
  type ErrorCode,
  type ErrorInfo,
  type Identity,
  type Issue,
  type Json,
  type JsonObject,
  type JsonSchema,
  type OnCircuitOpen,
  type Result,
  type ResultStatus,
  type StreamEvent,
  ToolError,
  type Usage,
  type Viewer,
  type Warning,
} from '@gantry/core'

// Chains and programs over tools.

export type {
  AskForTrial,
  ChainCall,
  ChainOptions,
  ChainParallel,
  ChainResult,
  ChainStep,
  CodeOptions,
  Condition,
  InnerNames,
  InnerOutcome,
  InnerRequest,
  InnerSearchOptions,
  InnerStep,
  JournaledOutcome,
  ProgramCall,
  ProgramJournal,
  ProgramLanguage,
  ProgramLimits,
  ProgramReport,
  StepMiddleware,
  StepNames,
  StepResult,
  ValueCondition,
  When,
} from '@gantry/core'

// Backends.

export {
  type Backend,
  type BackendBinding,
  type BackendCall,
  type BackendContext,
  type BackendControl,
  type BackendHost,
  type BackendInfo,
  type BackendReport,
  type BackendSafeguards,
  filePins,
  type GrpcBinding,
  type Health,
  type HttpAuth,
  type HttpBinding,
  type HttpBody,
  type HttpOptions,
  type HttpParameter,
  http,
  memoryPins,
  type ParameterStyle,
  type Pin,
  type PinnedDefinition,
  type PinStore,
  type Pins,
  type QuarantineControl,
  type QuarantinedTool,
  type SourceFault,
} from '@gantry/core'
export { type GrpcOptions, grpc } from '@gantry/grpc'
export {
  type McpHandler,
  type McpOAuth,
  type McpOptions,
  type McpRestart,
  type McpRoot,
  mcp,
  type TokenStore,
} from '@gantry/mcp'
export {
  importOpenapi,
  type OpenapiBackend,
  type OpenapiImport,
  type OpenapiOptions,
  type OpenapiReport,
  type OpenapiSecret,
  type OpenapiWarning,
} from '@gantry/openapi'
export { type WebOptions, webBackend } from '@gantry/tools'

// Tools in the formats of models and frameworks.

export {
  type AdaptedTools,
  type Adapter,
  type AdapterCall,
  type AdapterOptions,
  type AiSdkOptions,
  aiSdk,
  answerCalls,
  anthropic,
  type Done,
  type ForeignTool,
  gemini,
  type Loss,
  type McpOptions as McpFormatOptions,
  mcp as mcpFormat,
  type Names,
  type OpenAiOptions,
  openaiChat,
  openaiResponses,
  type ReadOptions,
  type ReadTools,
  type RefusedCall,
  type RunCall,
} from '@gantry/adapters'

// Discovery.

export {
  type Catalog,
  type CatalogChange,
  type CatalogEntry,
  type DescribeOptions,
  type Embedder,
  type FindOptions,
  type FoundTool,
  type ListQuery,
  type ListTools,
  memoryCatalog,
  type Page,
  type SearchHit,
  type SearchOptions,
  type ToolDoc,
  type Toolset,
  type ToolVisibility,
} from '@gantry/core'

// Policy, approval, audit and secrets.

export {
  type Approval,
  type ApprovalRequest,
  type Approver,
  type Audit,
  type AuditEnd,
  type AuditRecord,
  type AuditStart,
  allOf,
  type Decision,
  type Explanation,
  encryptedSecrets,
  environmentSecrets,
  type FileSecretsOptions,
  fileSecrets,
  firstOf,
  type MemoryAudit,
  memoryAudit,
  memorySecrets,
  openSecretStore,
  type Permit,
  type Policy,
  type PolicyRequest,
  type Rule,
  type RulesOptions,
  rules,
  type SecretRequest,
  type SecretSource,
  type SecretStore,
  type SecretStoreOptions,
  type Span,
  type SpanFacts,
  type SpanOptions,
  type Tracer,
  tenantTools,
} from '@gantry/core'

// Limits, retries and circuits.

export {
  type Breaker,
  type BreakerEvent,
  type BreakerOptions,
  type BreakerState,
  type Breakers,
  type BreakersOptions,
  type Bulkhead,
  type BulkheadOptions,
  type CircuitControl,
  createBreaker,
  createBreakers,
  createBulkhead,
  createRateLimit,
  createRateLimits,
  createRetryBudget,
  isRepeatable,
  type RateLimit,
  type RateLimitOptions,
  type RateLimits,
  type RateLimitsOptions,
  type RetryBudget,
  type RetryBudgetOptions,
  type RetryOptions,
  type RetryRule,
  retry,
  type SafeguardOptions,
  type TenantCircuitEvent,
} from '@gantry/core'

// Sandboxes and the way out to the network.

export {
  createEgress,
  type Egress,
  type EgressAllow,
  type EgressBounds,
  type EgressEvent,
  type EgressOptions,
  type EgressRequest,
  type EgressResponse,
  type EgressRule,
  type EgressScope,
  type EgressTarget,
  type HostAddress,
  type HostLookup,
  type Isolation,
  type LazyRuntimes,
  lazyRuntimes,
  type ProgramTraits,
  type Runtime,
  type RuntimeChoice,
  type RuntimeControl,
  type RuntimeExplanation,
  type RuntimeInfo,
  type Runtimes,
  type RuntimesLoad,
  type RuntimeVerdict,
  type SandboxCredential,
  type SandboxedBinding,
  type SandboxFile,
  type SandboxLimits,
  type SandboxNetwork,
  type SandboxOutput,
} from '@gantry/core'
export type { Language, LanguageRow, ProfileOptions, SandboxOptions, SandboxRuntimes } from '@gantry/sandbox'
export { openSandboxes, type SandboxNetworkOptions } from '@gantry/tools'

// Files and knowledge.

export {
  type ArtifactInfo,
  type ArtifactMaker,
  type ArtifactPage,
  type ArtifactQuery,
  type ArtifactRange,
  type Artifacts,
  type MemoryArtifactsOptions,
  memoryArtifacts,
  type NewArtifact,
  type ReadArtifact,
} from '@gantry/core'
export {
  type Added,
  type AddedDocument,
  type ChunkRange,
  type DocumentInfo,
  type Knowledge,
  type KnowledgeHit,
  type KnowledgeLimits,
  type KnowledgePage,
  type KnowledgeQuery,
  type KnowledgeSource,
  knowledgeBackend,
  type MemoryKnowledgeOptions,
  memoryKnowledge,
  type NewDocument,
  type ReadDocument,
} from '@gantry/knowledge'
