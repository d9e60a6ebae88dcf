/** What is thrown outside of every call, by a tool or a configuration that leaves a promise behind. */
export interface Strays {
  /** From now on it is told, and the process goes on: it does not take the Result of a command away. */
  tell(how: (thrown: unknown) => void): void
  /** From now on it is told and ends the process: a service must not go on in a state that nobody knows. */
  end(how: (thrown: unknown) => void): void
}

const failed = 1

/** Hears of strays from the start; `decideExit` makes the exit code. */
export function hearStrays(decideExit: (code: number) => void): Strays {
  let how = (_thrown: unknown): void => undefined
  let fatal = false
  const hear = (thrown: unknown): void => {
    how(thrown)
    if (!fatal) return
    decideExit(failed)
    process.exit()
  }
  process.on('uncaughtException', hear)
  process.on('unhandledRejection', hear)
  return {
    tell(next) {
      how = next
    },
    end(next) {
      how = next
      fatal = true
    },
  }
}
