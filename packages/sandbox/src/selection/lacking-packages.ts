import type { PackageKind, Refusal } from '@gantry/core/internal/runtimes/runtime'

/** Why a runtime that is allowed does not have the packages that the configuration gives to the program. */
export function lackingPackages(
  served: readonly PackageKind[] = [],
  wanted: readonly PackageKind[] = [],
  profile: string,
): Refusal | undefined {
  const lacking = wanted.find((each) => !served.includes(each))
  if (lacking === undefined) return undefined
  return {
    reason: `It cannot have the packages of runtimes.${lacking}.packages, which the profile ${profile} gives to such programs.`,
    remedy: 'Use the runtime process, or a profile with `packages: false` for programs that need none.',
  }
}
