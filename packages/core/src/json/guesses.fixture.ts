/** Two texts of one length and layout, of which one is how a secret begins. */
export interface Guess {
  readonly right: string
  readonly wrong: string
}

/** What somebody tries who reads a secret out character by character: every beginning of it, and one that is none. */
export function guessesOf(secret: string): Guess[] {
  return Array.from({ length: secret.length - 1 }, (_, index) => {
    const right = secret.slice(0, index + 1)
    return { right, wrong: `${right.slice(0, -1)}${other(right.slice(-1))}` }
  })
}

/** Another letter or digit for one of them; signs, which may shape a text, stay as they are. */
function other(character: string): string {
  return character.replace(/[A-Za-z0-9]/, (one) =>
    /[89YZyz]/.test(one) ? 'B' : String.fromCharCode(one.charCodeAt(0) + 1),
  )
}
