/** The part of a campaign's calls, kills or cases that runs: all of it, or with GANTRY_SOAK_SHARE, as in CI, that share. */
export function shareOf(count: number): number {
  return Math.ceil(count * Number(process.env.GANTRY_SOAK_SHARE ?? 1))
}
