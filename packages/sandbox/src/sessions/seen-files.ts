import { createHash } from 'node:crypto'

/** Knows which files of a workspace are as they were when somebody last saw them. */
export interface SeenFiles {
  /** These were put in by their owner, who knows them. */
  put(files: ReadonlyMap<string, Uint8Array>): void
  /** Those of these that are new or different; from here on they are known too. */
  changed(files: ReadonlyMap<string, Uint8Array>): ReadonlyMap<string, Uint8Array>
}

export function createSeenFiles(): SeenFiles {
  const seen = new Map<string, string>()
  const note = (path: string, content: Uint8Array): boolean => {
    const digest = createHash('sha256').update(content).digest('base64')
    const known = seen.get(path) === digest
    seen.set(path, digest)
    return !known
  }
  return {
    put(files) {
      for (const [path, content] of files) note(path, content)
    },
    changed: (files) => new Map([...files].filter(([path, content]) => note(path, content))),
  }
}
