import { ToolError } from '@gantry/contract'
import type { SandboxJob } from '@gantry/core/internal/runtimes/runtime'
import type { Collection } from './collection.ts'
import { fromHost, type HostReport, streamOf, toHost } from './frames.ts'
import type { HostClient } from './host-client.ts'

/** How long a host may be silent while it brings files out. */
const silenceMs = 2_000

/**
 * Asks a host whose program has ended for files and figures. A host that says nothing more, or something else, is
 * BACKEND_FAILED; whoever waits also watches its limits, because one that still runs its program says nothing either.
 */
export async function reportOf(
  host: HostClient,
  collection: Collection,
  { collect }: Pick<SandboxJob, 'collect'>,
): Promise<HostReport> {
  const { promise, resolve, reject } = Promise.withResolvers<HostReport>()
  const fail = (): void => reject(new ToolError('BACKEND_FAILED', 'The Python interpreter did not give its files out.'))
  const timer = setTimeout(fail, silenceMs)
  host.listen((kind, payload) => {
    // What a program wrote after it said that it had ended came too late, and is no sign of a report.
    if (streamOf(kind) !== undefined || kind === fromHost.end) return
    timer.refresh()
    if (kind === fromHost.file) collection.file(payload)
    else if (kind === fromHost.content) collection.content(payload)
    else if (kind === fromHost.skipped) collection.skipped(payload)
    else if (kind !== fromHost.report) throw new RangeError('A host says something that belongs elsewhere.')
    else {
      collection.check()
      resolve(readReport(payload))
      host.listen(refuse)
    }
  })
  void host.gone.then(fail)
  host.send(toHost.report, Buffer.from(JSON.stringify(collect ?? { files: 0, bytes: 0 })))
  try {
    return await promise
  } finally {
    clearTimeout(timer)
  }
}

/** A host that has reported waits for its next job and is silent. */
function refuse(): never {
  throw new RangeError('A host speaks unasked.')
}

/** Throws for anything but a report: the process that wrote it is the program's. */
function readReport(payload: Buffer): HostReport {
  const said = JSON.parse(payload.toString()) as { readonly [name in keyof HostReport]?: unknown }
  const { cpuMs, memoryBytes, refusedMemory, refusedDisk } = said
  if (!isAmount(cpuMs) || !isAmount(memoryBytes)) throw new RangeError('A report has an amount that is none.')
  if (typeof refusedMemory !== 'boolean' || typeof refusedDisk !== 'boolean')
    throw new RangeError('A report does not say what was refused.')
  return { cpuMs, memoryBytes, refusedMemory, refusedDisk }
}

function isAmount(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && value <= Number.MAX_SAFE_INTEGER
}
