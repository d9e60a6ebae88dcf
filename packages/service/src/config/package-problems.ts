import type { Issue } from '@gantry/contract'
import { isRuntimes } from '@gantry/core/internal/runtimes/runtimes'
import { type PackageState, packageIssues, packageStates } from '@gantry/sandbox/internal/packages/open-layers'
import { folderIssues } from '@gantry/sandbox/internal/process/root-file-system'
import type { LoadedConfig } from './config.ts'
import type { ConfigFinding } from './config-secrets.ts'

type Options = LoadedConfig['options']

/** The options of runtimes, which a configuration never has as runtimes that are open. */
function optionsOf({ runtimes }: Options) {
  return runtimes === undefined || isRuntimes(runtimes) ? {} : runtimes
}

/** Every folder, list and lock file under `runtimes` that the first sandbox would refuse, without starting one. */
export async function sandboxIssues(options: Options): Promise<readonly Issue[]> {
  const runtimes = optionsOf(options)
  const folders = (await folderIssues(runtimes)).map(({ path, message }) => ({ path: `/runtimes${path}`, message }))
  return [...folders, ...(await packageIssues(runtimes))]
}

/** The state of each configured list of packages; `thorough` reads every file of what is built. */
export function packagesOf(options: Options, thorough: boolean): Promise<readonly PackageState[]> {
  return packageStates(optionsOf(options), { thorough })
}

/** What cannot be used, for the start of Gantry and its checks. */
export function packageWarnings(states: readonly PackageState[]): readonly string[] {
  return states.flatMap(({ problem }) => (problem === undefined ? [] : [`${problem.reason} ${problem.remedy}`]))
}

/** The same for the report of a configuration, with the key that configures the packages. */
export function packageFindings(states: readonly PackageState[]): readonly ConfigFinding[] {
  return states.flatMap(({ kind, problem }) =>
    problem === undefined
      ? []
      : [{ path: `/runtimes/${kind}/packages`, message: problem.reason, remedy: problem.remedy }],
  )
}
