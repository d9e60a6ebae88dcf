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
  type Identity,
  type Issue,
  type Json,
  type JsonObject,
  type JsonSchema,
  type Result,
  type ResultStatus,
  type RetryRule,
  type StepResult,
  type StreamEvent,
  type Tool,
  ToolError,
  type ToolExample,
  type Usage,
  type Warning,
} from '@gantry/contract'
export type { Audit, AuditEnd, AuditRecord, AuditStart } from './audits/audit.ts'
export { type MemoryAudit, memoryAudit } from './audits/memory.ts'
export type { Backend, BackendCall, ProgressReport, ToolContext } from './backends/backend.ts'
export { type LocalBackend, type LocalFunction, localBackend } from './backends/local.ts'
export type {
  Catalog,
  CatalogChange,
  CatalogEntry,
  ListQuery,
  Page,
  SearchHit,
  SearchOptions,
} from './catalogs/catalog.ts'
export type { DescribeOptions, ToolDoc } from './catalogs/describe.ts'
export type { Embedder } from './catalogs/embedder.ts'
export { memoryCatalog } from './catalogs/memory.ts'
export type { Toolset } from './catalogs/toolset.ts'
export type { ChainOptions } from './chain/chain.ts'
export { createExecutor, type Executor, type FindOptions, type FoundTool } from './executor.ts'
export type { ExecutorLimits, ExecutorOptions } from './executor-options.ts'
export { copyJson } from './json/copy.ts'
export { JsonError, type JsonLimits } from './json/limits.ts'
export { parseJson } from './json/parse.ts'
export { createRedactor, type Redactor } from './json/redact.ts'
export type { EventMap, EventName } from './pipeline/events.ts'
export type { Approval, Approver, Decision, Policy, PolicyRequest } from './policies/policy.ts'
export { type Rule, type RulesOptions, rules } from './policies/rules.ts'
export type { RunOptions } from './run-options.ts'
export { nearest } from './search/near.ts'
export { environmentSecrets } from './secrets/environment.ts'
export { memorySecrets } from './secrets/memory.ts'
export type { SecretRequest, SecretSource } from './secrets/secret.ts'
export { demoTools } from './tools/demo.ts'
export { type ArgsOf, type DefinedTool, defineTool, type ToolDefinition, type ToolSchema } from './tools/tool.ts'
