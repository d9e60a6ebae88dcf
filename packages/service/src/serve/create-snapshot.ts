import { createHash } from 'node:crypto'
import type { Approver, Artifacts, Audit, DefinedTool, SafeguardOptions, Tracer } from '@gantry/core'
import { tenantTools } from '@gantry/core/internal/policies/tenant-tools'
import type { Knowledge } from '@gantry/knowledge'
import { builtinTools, createExecutor, demoTools } from '@gantry/tools'
import type { LoadedConfig } from '../config/config.ts'
import { reading } from '../config/problem.ts'
import type { Snapshot } from '../config/snapshots.ts'
import { toolsByTenant } from '../config/tenant-limits.ts'
import type { Bus } from '../observe/bus.ts'
import type { KnowledgeOptions } from '../storage/knowledge/knowledge.ts'

/** What is larger than usual goes into artifacts here, and what a chain or a program hands on need not. */
const largest = 100_000_000
/** Somebody who is asked here need not sit before a terminal. */
const approvalMs = 24 * 3_600_000

/** An executor of a configuration, named by what the configuration says. */
export function createSnapshot(
  loaded: LoadedConfig,
  { audit, tools, artifacts, knowledge, trials, tracer, now, approver, redactionKey }: Additions,
  bus: Bus,
): Snapshot {
  const shipped = [...(loaded.builtins ? builtinTools(loaded.builtinOptions) : []), ...(loaded.demo ? demoTools() : [])]
  const { options } = loaded
  const executor = reading(loaded.file, () =>
    createExecutor({
      ...options,
      audit,
      ...(artifacts === undefined ? {} : { artifacts }),
      ...(knowledge === undefined ? {} : { knowledge: knowledge(knowledgeOptions(loaded)) }),
      tracer,
      now,
      ...(trials === undefined ? {} : { safeguards: { ...options.safeguards, trials } }),
      ...(approver === undefined ? {} : { approver }),
      ...(redactionKey === undefined ? {} : { redactionKey }),
      limits: { resultBytes: largest, argsBytes: largest, approvalMs, ...options.limits },
      tools: [...shipped, ...tools, ...(options.tools ?? [])],
    }),
  )
  executor.on('circuit:changed', (event) => bus.emit('circuit:changed', event))
  const ofTenants = toolsByTenant(loaded.service.tenants)
  const divided = ofTenants === undefined ? executor : executor.under({ policy: tenantTools(ofTenants) })
  return { executor: divided, version: versionOf(loaded) }
}

/** What a tenant may keep unless the configuration says otherwise. */
const room = { documents: 100_000, bytes: 1_000_000_000 }

function knowledgeOptions({ knowledge = {} }: LoadedConfig): KnowledgeOptions {
  const { embedder, ...limits } = knowledge
  return { limits: { ...room, ...limits }, embedder }
}

function versionOf({ digest, toolsFolder }: LoadedConfig): string {
  if (digest === undefined) return 'default'
  const folder = toolsFolder?.digest ?? ''
  return createHash('sha256').update(digest).update(folder).digest('hex').slice(0, 16)
}

/** What the service adds to the executor of a configuration. */
export interface Additions {
  readonly audit: Audit
  readonly tools: readonly DefinedTool[]
  /** Makes what keeps the texts of tenants. */
  readonly knowledge?: (options: KnowledgeOptions) => Knowledge
  /** The files of calls. */
  readonly artifacts?: Artifacts
  /** Who may try a circuit that rests, where others have it too. */
  readonly trials?: SafeguardOptions['trials']
  readonly tracer?: Tracer | undefined
  /** The time of the database, in milliseconds since 1970. */
  readonly now?: () => number
  /** Of the digests that stand for what is hidden in arguments. */
  readonly redactionKey?: string
  /** Asks persons; without one, calls that need approval end. */
  readonly approver?: Approver
}
