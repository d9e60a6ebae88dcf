import { existsSync, mkdirSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { release } from 'node:os'
import { dirname, join } from 'node:path'
import type { Outcome, Runtime, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import { createLanguages, type Languages, languagesIn } from '../languages/languages.ts'
import { launcherBinary } from '../launcher/binary.ts'
import { basicEnvironment, watchOf } from '../launcher/launch-job.ts'
import { type Cgroups, createCgroups } from '../process/cgroups.ts'
import { groupsFileOf, sweep } from '../process/janitor.ts'
import type { Planned } from '../process/planner.ts'
import { openSandboxRoot, type SandboxRoot } from '../process/sandbox-root.ts'
import { launcherHost, launcherRuntime, type PreparedHost } from './launcher-runtime.ts'

export interface UnsafeHostOptions {
  /** Host folder of the workspaces; a private folder under the system's temporary folder when absent. */
  readonly root?: string
  /** The built-in languages when absent. */
  readonly languages?: Languages
}

/**
 * Runs programs on the host with the rights of this process, without a sandbox. Control groups limit their resources
 * where available, and they end with their run; nothing else restricts them.
 */
export function createUnsafeHostRuntime(options: UnsafeHostOptions = {}): Runtime {
  const { languages = createLanguages() } = options
  return launcherRuntime({
    kind: 'unsafe_host',
    isolation: 'none',
    cost: 5,
    guarded: false,
    found: languagesIn(languages, existsSync),
    prepare: () => prepare(options, languages),
  })
}

async function prepare({ root: folder }: UnsafeHostOptions, languages: Languages): Promise<PreparedHost> {
  const { path: launcher } = await launcherBinary()
  const root = await openSandboxRoot(folder === undefined ? {} : { folder })
  await sweep(root.folder)
  const announce = (folders: readonly string[]): Promise<void> => writeFile(groupsFileOf(root), folders.join('\n'))
  const cgroups = await createCgroups({ owner: root.owner, announce })
  const enforced = enforcedBy(cgroups)
  return launcherHost({
    launcher,
    version: `Linux ${release()}`,
    enforced,
    plan: (id, spec) => planFor(root, cgroups, launcher, id, spec),
    refuses: ({ network }) =>
      network === 'none' ? undefined : { reason: 'Nothing guards the network here.', remedy: 'Use another runtime.' },
    inside: (spec, { plan }) => {
      const [workspace = ''] = plan.folders
      return {
        workspace,
        node: process.execPath,
        drivers: join(dirname(dirname(launcher)), 'drivers'),
        languages,
        env: basicEnvironment(workspace),
        rlimits: {},
        watch: watchOf(spec, enforced),
      }
    },
    async close() {
      await cgroups.close()
      await root.close()
    },
  })
}

function planFor(root: SandboxRoot, cgroups: Cgroups, launcher: string, id: string, spec: SandboxSpec): Planned {
  const workspace = join(root.run, id)
  for (const name of ['tmp', 'code', 'shm'])
    mkdirSync(join(workspace, '.gantry', name), { recursive: true, mode: 0o700 })
  return {
    plan: {
      argv: [launcher, 'init', '--host', workspace],
      cgroups: cgroups.plan(id, spec.limits),
      rlimits: { core: 0, fsize: spec.limits.diskBytes },
      folders: [workspace],
      orphans: [root.run],
    },
    enforced: enforcedBy(cgroups),
    release: () => undefined,
  }
}

function enforcedBy({ enforced }: Cgroups): Outcome['enforced'] {
  return {
    wallMs: 'timer of the supervisor',
    memoryBytes: 'watch of the init',
    pids: 'watch of the init',
    cpuMs: 'watch of the init',
    ...enforced,
    diskBytes: 'rlimit fsize of each file',
    stdoutBytes: 'pipe of the init',
    stderrBytes: 'pipe of the init',
  }
}
