import { once } from 'node:events'
import { mkdir, open } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { ToolError } from '@gantry/contract'
import type { Audit, Executor } from '@gantry/core'
import { isRuntimes } from '@gantry/core/internal/runtimes/runtimes'
import type { SandboxRuntimes } from '@gantry/sandbox'
import { loadConfig } from '@gantry/service/internal/config/load'
import { toolsByTenant } from '@gantry/service/internal/config/tenant-limits'
import type { LoadedConfig } from '@gantry/service/serve'
import type { TemporalSettings, TemporalWorker, WorkApprovals } from '@gantry/temporal'
import { openSandboxes } from '@gantry/tools'
import type { Command, Io } from '../io.ts'
import { printJson } from '../print.ts'
import { safeJson, safeLine } from '../terminal.ts'

/** Polls Temporal until a signal comes, and until running calls have ended. */
export const workForTemporal: Command = async ({ options }, io) => {
  const { environment, folder, signal } = io
  const file = options.config === undefined ? {} : { file: options.config }
  const data = options.data === undefined ? {} : { GANTRY_DATA: resolve(folder, options.data) }
  const loaded = await loadConfig({ environment: { ...environment, ...data }, folder, signal, ...file })
  for (const warning of loaded.warnings) io.err(`warning: ${safeLine(warning)}\n`)
  const { sandboxes, calls } = rolesOf(loaded)
  const temporal = await import('@gantry/temporal')
  const bundle = await temporal.bundleWorkflows()
  const closing: (() => Promise<void>)[] = []
  const start = async (settings: TemporalSettings, role: object): Promise<TemporalWorker> => {
    const target = await temporal.openTarget(settings, loaded.options.secrets)
    const worker = await temporal.startTemporalWorker({ target, bundle, ...role })
    closing.unshift(worker.close)
    return worker
  }
  const workers: TemporalWorker[] = []
  try {
    if (sandboxes !== undefined) {
      const runtimes = await openLocal(loaded)
      closing.push(() => runtimes.close())
      workers.push(await start(sandboxes, { runtimes }))
    }
    if (calls !== undefined) {
      const approvals = temporal.createWorkApprovals()
      const audit = await openAudit(join(loaded.service.data, 'worker-audit.jsonl'))
      const executor = await openExecutor(loaded, approvals, audit)
      closing.push(async () => executor.close(), audit.close)
      workers.push(await start(calls, { work: { executor, approvals, audit } }))
    }
    await announce(
      [...(sandboxes === undefined ? [] : ['sandboxes']), ...(calls === undefined ? [] : ['calls'])],
      options.json === true,
      io,
    )
    // A worker that failed ends the command, so that a process manager starts it again.
    const failed = Promise.all(workers.map((worker) => worker.ended))
    await Promise.race([failed, untilEnded(signal)])
    io.err('draining: nothing new is taken, running calls end first\n')
  } finally {
    for (const close of closing) await close()
  }
  return 0
}

/** Which settings of Temporal the configuration has. Throws CONFIG_INVALID when it has none. */
function rolesOf({ options }: LoadedConfig): {
  readonly sandboxes?: TemporalSettings
  readonly calls?: TemporalSettings
} {
  const { runtimes = {}, engines = {} } = options
  const sandboxes = isRuntimes(runtimes) ? undefined : runtimes.temporal
  const { temporal: engine } = engines
  const calls = engine === undefined || 'chain' in engine ? undefined : engine
  if (sandboxes === undefined && calls === undefined) {
    const issues = [{ path: '/engines/temporal', message: 'is missing, and so is /runtimes/temporal' }]
    const message =
      'The configuration names no Temporal server; add runtimes.temporal to offer sandboxes, or engines.temporal to run calls.'
    throw new ToolError('CONFIG_INVALID', message, { details: { issues } })
  }
  return { ...(sandboxes === undefined ? {} : { sandboxes }), ...(calls === undefined ? {} : { calls }) }
}

/** A worker offers what it runs itself: to pass programs on to further hosts could go in a circle. */
function openLocal({ options }: LoadedConfig): Promise<SandboxRuntimes> {
  const { runtimes = {} } = options
  const { remote: _remote, temporal: _temporal, ...local } = isRuntimes(runtimes) ? {} : runtimes
  return openSandboxes(local)
}

async function openExecutor(loaded: LoadedConfig, { approver }: WorkApprovals, audit: Audit): Promise<Executor> {
  const { builtinTools, createExecutor, demoTools } = await import('@gantry/tools')
  const { tenantTools } = await import('@gantry/core/internal/policies/tenant-tools')
  const { engines: _, ...rest } = loaded.options
  const shipped = [...(loaded.builtins ? builtinTools(loaded.builtinOptions) : []), ...(loaded.demo ? demoTools() : [])]
  const executor = createExecutor({ ...rest, tools: [...shipped, ...(rest.tools ?? [])], approver, audit })
  const ofTenants = toolsByTenant(loaded.service.tenants)
  return ofTenants === undefined ? executor : executor.under({ policy: tenantTools(ofTenants) })
}

/** The record of calls, which only its owner may read. */
async function openAudit(file: string): Promise<Audit & { close(): Promise<void> }> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 })
  const handle = await open(file, 'a', 0o600)
  await handle.chmod(0o600)
  return {
    write: async (record) => {
      await handle.appendFile(`${safeJson(record)}\n`)
      await handle.datasync()
    },
    close: () => handle.close(),
  }
}

async function announce(roles: readonly string[], isJson: boolean, io: Io): Promise<void> {
  if (isJson) return printJson({ state: 'ready', roles, pid: process.pid }, io)
  await io.out(`polling for ${roles.join(' and ')}\nready\n`)
}

async function untilEnded(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort')
}
