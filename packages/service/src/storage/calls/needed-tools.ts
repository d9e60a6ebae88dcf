/** A tool that a call needs where it runs, and the digest of the definition that it was admitted for. */
export interface NeededTool {
  readonly tool: string
  /** Absent where any definition of the tool will do, as for the steps of a chain. */
  readonly digest?: string
}

/** A needed tool as one text, under which workers that have it find the calls that wait for it. */
export function needOf({ tool, digest }: NeededTool): string {
  return digest === undefined ? tool : `${tool} ${digest}`
}

export function readNeed(need: string): NeededTool {
  const space = need.indexOf(' ')
  return space < 0 ? { tool: need } : { tool: need.slice(0, space), digest: need.slice(space + 1) }
}

/** The label that a worker must have to claim a call that needs a tool which others did not have. */
export function needLabel(need: string): string {
  return `needs:${need}`
}

/** For messages: the exact version, and the definition as far as it tells two of them apart. */
export function needText(need: string): string {
  const { tool, digest } = readNeed(need)
  return digest === undefined ? tool : `${tool} (definition ${digest.slice(0, 12)})`
}
