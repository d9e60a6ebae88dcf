import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { builtinTools, createExecutor, demoTools, tenantTools } from '@gantry/core'
import type { LoadedConfig } from '../config/config.ts'
import { reading } from '../config/problem.ts'
import { toolsByTenant } from '../config/tenant-settings.ts'
import type { Snapshot } from '../execute/snapshots.ts'
import type { Bus } from '../stores/bus.ts'
import type { Additions } from './start.ts'

/** What is larger than usual goes into artifacts here, and files that a call names come out of them. */
const largest = 100_000_000
/** Somebody who is asked here need not sit before a terminal. */
const approvalMs = 24 * 3_600_000

/** An executor of a configuration, named by what the configuration says. */
export function createSnapshot(
  loaded: LoadedConfig,
  { audit, tools, trials, tracer, approver }: Additions,
  bus: Bus,
): Snapshot {
  const shipped = [...(loaded.builtins ? builtinTools() : []), ...(loaded.demo ? demoTools() : [])]
  const { options } = loaded
  const executor = reading(loaded.file, () =>
    createExecutor({
      ...options,
      audit,
      tracer,
      ...(trials === undefined ? {} : { safeguards: { ...options.safeguards, trials } }),
      ...(approver === undefined ? {} : { approver }),
      limits: { resultBytes: largest, argsBytes: largest, approvalMs, ...options.limits },
      tools: [...shipped, ...tools, ...(options.tools ?? [])],
    }),
  )
  executor.on('circuit:changed', (event) => bus.emit('circuit:changed', event))
  const ofTenants = toolsByTenant(loaded.service.tenants)
  const divided = ofTenants === undefined ? executor : executor.under({ policy: tenantTools(ofTenants) })
  return { executor: divided, version: versionOf(loaded.file) }
}

function versionOf(file: string | undefined): string {
  if (file === undefined) return 'default'
  return createHash('sha256').update(readFileSync(file)).digest('hex').slice(0, 16)
}
