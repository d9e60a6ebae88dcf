import { isObject, isText } from '@gantry/contract/internal/json'

/** What the description of a container says of its owner, from its first moment on, because `clone` sets it. */
export interface Ownership {
  readonly owner: string
  /** Milliseconds since 1970. */
  readonly made: number
}

const mark = 'Sandbox of Gantry. It is removed without asking.'
/** A container that has ended and is this old belongs to no start that is under way. */
const startedByMs = 600_000
export const namePrefix = 'gantry-'

export function describe({ owner, made }: Ownership): string {
  return `${mark}\n\nowner: ${owner}\n\nmade: ${new Date(made).toISOString()}`
}

/** Undefined for a description that is not one of ours. */
export function readOwnership(description: unknown): Ownership | undefined {
  if (!isText(description) || !description.startsWith(mark)) return undefined
  const owner = /^owner: ([\w.-]{1,128})$/m.exec(description)?.[1]
  const made = Date.parse(/^made: (\S{1,40})$/m.exec(description)?.[1] ?? '')
  return owner === undefined || Number.isNaN(made) ? undefined : { owner, made }
}

/** One row of the list of containers of a node. */
export interface ListedContainer {
  readonly vmid: number
  readonly name: string
  readonly isRunning: boolean
  readonly isLocked: boolean
}

export function readListed(value: unknown): readonly ListedContainer[] {
  if (!Array.isArray(value)) return []
  return value.flatMap((row): ListedContainer[] => {
    if (!isObject(row)) return []
    const { vmid, name, status, lock } = row
    const number = Number(vmid)
    if (!Number.isSafeInteger(number) || !isText(name)) return []
    return [{ vmid: number, name, isRunning: status === 'running', isLocked: isText(lock) && lock !== '' }]
  })
}

/**
 * Whether nothing uses a container any more: its owner, a process of this machine, has died; or it has ended, which its
 * agent brings about when an owner anywhere is gone, and is too old to be about to start.
 */
export function isLeft(
  { isRunning }: Pick<ListedContainer, 'isRunning'>,
  { owner, made }: Ownership,
  stateOf: (owner: string) => 'alive' | 'dead' | 'unknown' | undefined,
  now: number,
): boolean {
  const state = stateOf(owner)
  if (state === 'dead') return true
  return !isRunning && state !== 'alive' && now - made > startedByMs
}
