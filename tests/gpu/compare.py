"""Do two runs have the same losses?

    compare.py LOSSES.json METRICS.csv TOLERANCE     each step's losses differ by at most so much; prints the largest difference and the last losses"""
import csv
import json
import sys


def main():
    theirs = json.load(open(sys.argv[1]))
    with open(sys.argv[2]) as f:
        ours = [float(row["loss"]) for row in csv.DictReader(f)]
    if len(ours) != len(theirs):
        sys.exit(f"{len(ours)} steps in {sys.argv[2]}, {len(theirs)} in {sys.argv[1]}")
    differences = [abs(a - b) for a, b in zip(ours, theirs)]
    worst = max(differences)
    print(f"largest difference {worst:.3g} at step {differences.index(worst) + 1}; at the end {ours[-1]:.4f}, PyTorch {theirs[-1]:.4f}")
    sys.exit(0 if worst <= float(sys.argv[3]) else 1)


main()
