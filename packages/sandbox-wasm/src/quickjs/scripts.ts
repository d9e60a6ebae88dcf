import type { Line } from '../channel/guest-channel.ts'
import type { ThreadJob, ThreadResult } from '../channel/messages.ts'
import type { Outlet } from '../channel/outlet.ts'
import { createWorkspace, type Workspace } from '../guest/workspace.ts'
import { installClock } from './clock.ts'
import type { CompiledQuickjs } from './compile.ts'
import { loadEngines } from './engine.ts'
import { loadLooseImports } from './forms.ts'
import { createGuest, type Guest } from './guest.ts'
import { type CodeJob, runScript } from './run-script.ts'

/** Runs scripts in QuickJS, each in a context as it was made; the next is made ready while nothing else is to be done. */
export interface Scripts {
  /** `line` is for a program over tools. */
  run(job: CodeJob, outlet: Outlet, line?: Line): Promise<ThreadResult>
  /** Makes the context for the next run. */
  prepare(): Promise<void>
}

/** What a session keeps between its runs. */
interface Kept {
  readonly guest: Guest
  readonly workspace: Workspace
}

export async function loadScripts(quickjs?: CompiledQuickjs): Promise<Scripts> {
  const clock = installClock()
  const [freshEngine, loose] = await Promise.all([loadEngines(quickjs), loadLooseImports()])
  /** Fit for a program. */
  let ready: Guest | undefined
  /** Has had one. */
  let used: Guest | undefined
  let kept: Kept | undefined
  /** Who ran a program over tools runs another soon; what it needs is then made ready too. */
  let overTools = false

  const fresh = async (): Promise<Guest> => createGuest(await freshEngine())
  /** What belongs to a program over tools is not for others. */
  const fit = (guest: Guest | undefined): Guest | undefined =>
    guest === undefined || overTools || !guest.opened || guest.reset() ? guest : undefined
  const take = async ({ limits, gateway }: ThreadJob): Promise<Kept> => {
    overTools = gateway !== undefined
    const guest = fit(ready) ?? (await fresh())
    ready = undefined
    return { guest, workspace: createWorkspace(limits.diskBytes, Date.now) }
  }
  return {
    async run(job, outlet, line) {
      const { guest, workspace } = kept ?? (await take(job))
      kept = job.session ? { guest, workspace } : undefined
      const result = await runScript(job, guest, workspace, { outlet, clock, loose, line })
      if (!job.session && !result.spent) used = guest
      return result
    },
    async prepare() {
      if (kept !== undefined) return
      if (used?.reset()) ready ??= used
      used = undefined
      ready ??= await fresh()
      if (overTools) ready.open()
    },
  }
}
