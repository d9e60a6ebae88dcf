/** What one program within a call was given, and took in. */
interface Conversation {
  given: number
  rested: number
}

/** Knows whether each program of a call, those within it included, can do nothing without an answer. */
export interface Rests {
  /** A program begins that was given so many outcomes before. It does something until it says otherwise. */
  begin(program: string, given: number): void
  /** It is given another outcome, so it has something to do from now on. */
  give(program: string): void
  /** It can do nothing more, having taken in so many outcomes. */
  rest(program: string, told: number): void
  end(program: string): void
  readonly all: boolean
}

export function createRests(): Rests {
  const programs = new Map<string, Conversation>()
  return {
    begin: (program, given) => void programs.set(program, { given, rested: -1 }),
    give(program) {
      const conversation = programs.get(program)
      if (conversation !== undefined) conversation.given += 1
    },
    rest(program, told) {
      const conversation = programs.get(program)
      if (conversation !== undefined) conversation.rested = told
    },
    end: (program) => void programs.delete(program),
    get all() {
      return [...programs.values()].every(({ given, rested }) => rested === given)
    },
  }
}
