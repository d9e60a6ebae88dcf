import { Unusable } from './unusable.ts'

const mebibyte = 1_048_576

/** A size that all tools of a document share. Once there is too little left, there is none at all. */
export interface Room {
  /** Throws Unusable when there is not so much left. */
  take(bytes: number): void
}

/**
 * For what tools carry; a definition counts for each tool that uses it. It is taken as the tools are built, so that a
 * small document cannot make work and memory without end. The largest document we know of takes 16 MiB.
 */
export function roomForTools(): Room {
  return createRoom(48, (size) => `the document would make more than ${size} of tools; choose some`)
}

/** For the schemas that are compiled to check examples, which costs far more than carrying them. */
export function roomForChecks(): Room {
  return createRoom(4, (size) => `comes after ${size} of schemas that were compiled for others`)
}

function createRoom(mebibytes: number, reason: (size: string) => string): Room {
  let left = mebibytes * mebibyte
  return {
    take(bytes) {
      left = bytes > left ? -1 : left - bytes
      if (left < 0) throw new Unusable(reason(`${mebibytes} MiB`))
    },
  }
}
