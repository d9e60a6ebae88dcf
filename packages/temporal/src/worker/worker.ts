import { fileURLToPath } from 'node:url'
import { ToolError } from '@gantry/contract'
import type { Runtimes } from '@gantry/core/internal/runtimes/runtimes'
import type { TemporalTarget } from '../connection/connect.ts'
import { dataConverterOf, queueOf, requirePayloadKey, tlsOf } from '../connection/connect.ts'
import { createPayloadFit } from './payload-fit.ts'
import type { WorkOptions } from './work-activities.ts'

export interface TemporalWorkerOptions {
  readonly target: TemporalTarget
  /** Offers the sandboxes of these runtimes; none when absent. */
  readonly runtimes?: Pick<Runtimes, 'take' | 'list' | 'explain'>
  /** Runs chains and programs that are handed over; none when absent. Needs a payload key, because they carry identities. */
  readonly work?: WorkOptions
  /** Programs, and calls, at a time; 100 when absent. */
  readonly capacity?: number
  /** How long running calls and programs have to end when the worker is closed; 10,000 when absent. */
  readonly graceMs?: number
  /** The workflow code, bundled by `bundleWorkflows`; bundled at the start when absent, which takes seconds. */
  readonly bundle?: string
}

/** A worker that polls Temporal until it is closed. */
export interface TemporalWorker {
  /** Settles when the worker has ended; rejects when it failed. */
  readonly ended: Promise<void>
  /** Takes nothing new, ends what runs after the grace time, and closes its connection. Idempotent. */
  close(): Promise<void>
}

const usualCapacity = 100
const usualGraceMs = 10_000
/** A cancellation reaches a worker with the answer to a heartbeat. */
const heartbeatsMs = 500

/** The SDK of workers has a native part, so that it is an optional package, loaded here only. */
async function loadSdk(): Promise<typeof import('@temporalio/worker')> {
  try {
    return quiet(await import('@temporalio/worker'))
  } catch (cause) {
    const message =
      'A Temporal worker needs @temporalio/worker, @temporalio/workflow and @temporalio/activity; install them beside gantry, all in version 1.24.0.'
    throw new ToolError('BACKEND_UNAVAILABLE', message, { cause })
  }
}

/** Warnings and errors only, on stderr; the first part of the process that uses the SDK decides. */
function quiet(sdk: typeof import('@temporalio/worker')): typeof import('@temporalio/worker') {
  try {
    sdk.Runtime.install({ logger: new sdk.DefaultLogger('WARN'), shutdownSignals: [] })
  } catch (error) {
    if (!(error instanceof Error) || error.name !== 'IllegalStateError') throw error
  }
  return sdk
}

/** Bundles the workflow code, for several workers of one process. */
export async function bundleWorkflows(): Promise<string> {
  const { bundleWorkflowCode, DefaultLogger } = await loadSdk()
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
  const path = fileURLToPath(new URL(`../workflows/index.${extension}`, import.meta.url))
  const { code } = await bundleWorkflowCode({ workflowsPath: path, logger: new DefaultLogger('ERROR') })
  return code
}

/** Connects to Temporal and starts to poll. Throws BACKEND_UNAVAILABLE when the server cannot be reached. */
export async function startTemporalWorker(options: TemporalWorkerOptions): Promise<TemporalWorker> {
  const { target, capacity = usualCapacity, graceMs = usualGraceMs } = options
  if (options.work !== undefined) requirePayloadKey(target)
  const { NativeConnection, Worker } = await loadSdk()
  const code = options.bundle ?? (await bundleWorkflows())
  const roles = await activitiesOf(options)
  const { address, namespace, apiKey } = target
  const connection = await NativeConnection.connect({
    address,
    ...tlsOf(target),
    ...(apiKey === undefined ? {} : { apiKey }),
  }).catch((cause: unknown) => {
    throw new ToolError('BACKEND_UNAVAILABLE', `The Temporal server ${address} cannot be reached.`, { cause })
  })
  const create = ({ role, activities }: Role) =>
    Worker.create({
      connection,
      namespace,
      taskQueue: queueOf(target, role),
      workflowBundle: { code },
      activities,
      dataConverter: dataConverterOf(target),
      maxConcurrentActivityTaskExecutions: capacity,
      maxHeartbeatThrottleInterval: heartbeatsMs,
      defaultHeartbeatThrottleInterval: heartbeatsMs,
      shutdownGraceTime: graceMs,
    })
  const workers = await Promise.all(roles.map(create)).catch(async (error: unknown) => {
    await connection.close()
    throw error
  })
  const stop = (): void => {
    for (const worker of workers) if (worker.getState() === 'RUNNING') worker.shutdown()
  }
  // One that fails takes the others with it, so that a process manager starts all of them again.
  const ended = Promise.allSettled(workers.map((worker) => worker.run().finally(stop))).then(async (ends) => {
    await connection.close()
    for (const end of ends) if (end.status === 'rejected') throw end.reason
  })
  ended.catch(() => undefined)
  return {
    ended,
    async close() {
      stop()
      await ended.catch(() => undefined)
    },
  }
}

interface Role {
  readonly role: 'sandboxes' | 'calls'
  readonly activities: object
}

/** A queue for each role that the worker has. */
async function activitiesOf({ runtimes, work }: TemporalWorkerOptions): Promise<readonly Role[]> {
  const fit = createPayloadFit()
  const roles: Role[] = []
  if (runtimes !== undefined) {
    const { createSandboxActivities } = await import('./sandbox-activities.ts')
    roles.push({ role: 'sandboxes', activities: createSandboxActivities(runtimes, fit) })
  }
  if (work !== undefined) {
    const { createWorkActivities } = await import('./work-activities.ts')
    roles.push({ role: 'calls', activities: createWorkActivities(work, fit) })
  }
  return roles
}
