/** Two texts of equal length and layout; `right` is a prefix of a secret. */
export interface Guess {
  readonly right: string
  readonly wrong: string
}

/** The guesses of an attacker who reads a secret character by character: each prefix, right and with a wrong last character. */
export function guessesOf(secret: string): Guess[] {
  return Array.from({ length: secret.length - 1 }, (_, index) => {
    const right = secret.slice(0, index + 1)
    return { right, wrong: `${right.slice(0, -1)}${other(right.slice(-1))}` }
  })
}

/** Replaces an alphanumeric character by another; other characters, which may affect the layout, stay. */
function other(character: string): string {
  return character.replace(/[A-Za-z0-9]/, (one) =>
    /[89YZyz]/.test(one) ? 'B' : String.fromCharCode(one.charCodeAt(0) + 1),
  )
}
