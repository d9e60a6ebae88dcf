import { execFile } from 'node:child_process'
import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Runtime } from '@gantry/core/internal/runtimes/runtime'
import type { OpenEngine } from '../containers/container-host.ts'
import type { ContainerdRuntime } from '../engines/containerd.ts'
import { unavailable } from '../engines/docker-client.ts'
import { containerRuntime } from './container-runtime.ts'
import { type ContainerdOptions, containerdEngine, runcRuntime } from './containerd.ts'
import { type DockerOptions, dockerEngine } from './docker.ts'

/** An OCI runtime with a kernel of its own, through Docker or through containerd. */
export type OwnKernelOptions =
  | (DockerOptions & { readonly engine?: 'docker' })
  | (ContainerdOptions & {
      readonly engine: 'containerd'
      /** The OCI runtime, as containerd names it. */
      readonly runtime?: string
    })

export type GvisorOptions = OwnKernelOptions & {
  /** The program `runsc`, which containerd's own runtime calls in place of runc; found by its name when absent. */
  readonly runsc?: string
}

/** Programs in gVisor's kernel, which the engine starts as the OCI runtime `runsc`. */
export function createGvisorRuntime(options: GvisorOptions = {}): Runtime {
  const runtime = options.runtime ?? (options.engine === 'containerd' ? runcRuntime : 'runsc')
  const open: OpenEngine =
    options.engine === 'containerd'
      ? containerdEngine(
          options,
          (folder) =>
            options.runtime === undefined ? wrappedRunsc(options.runsc ?? 'runsc', folder) : { name: options.runtime },
          'runsc',
        )
      : dockerEngine(options, runtime, 'runsc')
  const named = options.engine === 'containerd' && options.runtime === undefined ? 'runsc' : runtime
  return containerRuntime(
    { kind: 'gvisor', isolation: 'kernel', cost: 60, hasOwnKernel: true, runtime: named, open },
    options,
  )
}

/** Programs in a virtual machine for each container, which the engine starts as a Kata runtime. */
export function createKataRuntime(options: OwnKernelOptions = {}): Runtime {
  const { runtime = 'io.containerd.kata.v2' } = options
  const open =
    options.engine === 'containerd'
      ? containerdEngine(options, () => ({ name: runtime }))
      : dockerEngine(options, runtime)
  return containerRuntime({ kind: 'kata', isolation: 'microvm', cost: 80, hasOwnKernel: true, runtime, open }, options)
}

const run = promisify(execFile)
/** `systrap` is in releases from here on; before, only `ptrace` works without KVM. */
const firstSystrap = 20230605

/**
 * containerd's own shim calls the program in place of runc, and passes no options of gVisor: a script beside the pipes adds
 * them. Rejects with RUNTIME_UNAVAILABLE when `runsc` cannot be run.
 */
export async function wrappedRunsc(runsc: string, folder: string): Promise<ContainerdRuntime> {
  const program = await programAt(runsc)
  const flags = [`--platform=${await platformOf(program)}`, '--network=none', '--host-uds=open']
  const script = join(folder, 'runsc')
  await writeFile(script, `#!/bin/sh\nexec ${quoted(program)} ${flags.join(' ')} "$@"\n`)
  await chmod(script, 0o700)
  return { name: runcRuntime, binary: script }
}

/** The absolute path, because containerd has a PATH of its own. */
async function programAt(runsc: string): Promise<string> {
  try {
    const { stdout } = await run('/bin/sh', ['-c', 'command -v -- "$1"', 'sh', runsc])
    return stdout.trim()
  } catch (cause) {
    const remedy = 'Install gVisor, or name its program in `runtimes.gvisor.runsc`.'
    throw unavailable(`There is no program ${JSON.stringify(runsc)}.`, remedy, cause)
  }
}

/** `systrap` where it can be had, `ptrace` everywhere else. `kvm` is not tried: `/dev/kvm` may be there and not work. */
async function platformOf(program: string): Promise<'systrap' | 'ptrace'> {
  const { stdout } = await run(program, ['--version'], { timeout: 10_000 }).catch((cause: unknown) => {
    const remedy = 'Install gVisor again, or name its program in `runtimes.gvisor.runsc`.'
    throw unavailable(`The program ${program} does not print its version.`, remedy, cause)
  })
  const [, date] = /(20\d{6})/.exec(stdout) ?? []
  return Number(date ?? 0) >= firstSystrap ? 'systrap' : 'ptrace'
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}
