import type { Mailbox } from './mailbox.ts'
import { read, written } from './mailbox.ts'

/** How much text of answers a run may leave unread: a thread takes them as they come, unless its program keeps it busy. */
const mostUnread = 64 * 2 ** 20

/** The sizes of the answers of a run that its thread may not have read yet. */
export interface Unread {
  /** Notes an answer; false when there is too much now. `waiting` are those that are not in the mailbox yet. */
  add(answer: string, waiting: number): boolean
  clear(): void
}

export function createUnread({ counts }: Mailbox): Unread {
  let sizes: number[] = []
  let total = 0
  return {
    add(answer, waiting) {
      sizes.push(answer.length)
      total += answer.length
      // Only now is it worth to look what was read.
      if (total <= mostUnread) return true
      const unread = waiting + ((Atomics.load(counts, written) - Atomics.load(counts, read)) | 0)
      sizes = unread === 0 ? [] : sizes.slice(-unread)
      total = sizes.reduce((sum, size) => sum + size, 0)
      return total <= mostUnread
    },
    clear() {
      sizes = []
      total = 0
    },
  }
}
